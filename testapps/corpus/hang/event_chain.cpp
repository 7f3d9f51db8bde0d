// An event is recorded behind a wait that no operation satisfies, a second stream waits for the event, a third for an event of the
// second, and the host synchronizes the third, where nothing but a kernel was submitted.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(event_chain) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream first = lg::stream(), second = lg::stream(), third = lg::stream();
  const CUevent of_first = lg::event(), of_second = lg::event();
  CK(lg::launch_one(step, first, words + 4));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(first, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(step, first, words + 4));
  CK(cuEventRecord(of_first, first));
  CK(cuStreamWaitEvent(second, of_first, 0));
  CK(lg::launch_one(step, second, words + 4));
  CK(cuEventRecord(of_second, second));
  CK(cuStreamWaitEvent(third, of_second, 0));
  CK(lg::launch_one(step, third, words + 4));
  CK(cuStreamSynchronize(third));
  std::puts("three steps");
  return 0;
}
