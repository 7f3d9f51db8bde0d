// Sixty short kernels, which are done, and behind them a wait that nobody satisfies. Nobody asked how far the stream had come.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_behind_many_operations) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream only = lg::stream();
  for (int i = 0; i < 60; ++i) CK(lg::launch_one(step, only, words + 4));
  CK(cuStreamWaitValue32(only, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_one(step, only, words + 4));
  CK(cuStreamSynchronize(only));
  std::puts("the value came");
  return 0;
}
