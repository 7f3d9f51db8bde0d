// With CUDA_DEVICE_MAX_CONNECTIONS=1 all streams share one hardware queue. A kernel waits at its head for an event behind a persistent kernel, and the kernel
// of a third stream that would end the persistent one comes behind it in the queue. Every kernel is loaded, and the device is nearly empty.
// expect: LG211 culprit=spin_until innocent=set_flag
// card: yes
#include "../corpus.hpp"

SCENARIO(one_queue_holds_the_release) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for"), set = lg::function(code, "set_flag");
  const CUstream first = lg::stream(), behind = lg::stream(), beside = lg::stream();
  const CUevent ended = lg::event();
  CK(lg::launch_one(spin, first, stop.device));
  CK(cuEventRecord(ended, first));
  CK(cuStreamWaitEvent(behind, ended, 0));
  CK(lg::launch_one(busy, behind, lg::ms(1)));
  CK(lg::launch_one(set, beside, stop.device));
  CK(cuStreamSynchronize(beside));
  std::puts("the kernel was ended");
  return 0;
}
