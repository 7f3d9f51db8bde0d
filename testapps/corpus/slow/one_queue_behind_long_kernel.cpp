// With CUDA_DEVICE_MAX_CONNECTIONS=1 a kernel waits at the head of the only hardware queue for an event behind a kernel of two T, and a short kernel of a third
// stream comes behind it in the queue: it starts when the long kernel has ended.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(one_queue_behind_long_kernel) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream first = lg::stream(), behind = lg::stream(), beside = lg::stream();
  const CUevent ended = lg::event();
  CK(lg::launch_one(busy, first, lg::pace_ns(2)));
  CK(cuEventRecord(ended, first));
  CK(cuStreamWaitEvent(behind, ended, 0));
  CK(lg::launch_one(busy, behind, lg::ms(1)));
  CK(lg::launch_one(busy, beside, lg::ms(1)));
  CK(cuStreamSynchronize(beside));
  CK(cuCtxSynchronize());
  std::puts("all kernels ended");
  return 0;
}
