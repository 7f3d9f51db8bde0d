// A launch on the legacy default stream stands behind the unsatisfied wait of a blocking stream, and a launch on a second
// blocking stream behind that one. The host synchronizes the second stream, on which nothing but its kernel was submitted.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(legacy_stream_behind_wait) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream waits = lg::stream(CU_STREAM_DEFAULT), innocent = lg::stream(CU_STREAM_DEFAULT);
  CK(lg::launch_one(step, waits, words + 4));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(waits, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(step, nullptr, words + 4));
  CK(lg::launch_one(step, innocent, words + 4));
  CK(cuStreamSynchronize(innocent));
  std::puts("two steps");
  return 0;
}
