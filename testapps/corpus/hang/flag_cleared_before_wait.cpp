// A stream clears a flag in device memory, waits for it to be set, and has a kernel behind the wait. The program forgot who sets the flag.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(flag_cleared_before_wait) {
  lg::open_session();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const lg::MappedWord counter = lg::mapped_word();
  const CUdeviceptr flag = lg::device_words(1);
  const CUstream work = lg::stream();
  CK(cuMemsetD32Async(flag, 0, 1, work));
  CK(cuStreamWaitValue32(work, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  std::puts("the flag was set");
  return 0;
}
