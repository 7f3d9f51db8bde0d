// A stream sets a flag in device memory by a memset, waits for it, and runs a kernel of one and a half T behind the wait.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(flag_set_before_wait) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr flag = lg::device_words(1);
  const CUstream work = lg::stream();
  CK(cuMemsetD32Async(flag, 1, 1, work));
  CK(cuStreamWaitValue32(work, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(busy, work, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(work));
  std::puts("the kernel has ended");
  return 0;
}
