// Two streams each wait for the value that the other writes behind its own wait.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_cycle) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUstream one = lg::stream(), two = lg::stream();
  CK(cuStreamWaitValue32(one, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue32(one, words + 4, 1, 0));
  CK(cuStreamWaitValue32(two, words + 4, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue32(two, words, 1, 0));
  CK(cuStreamSynchronize(one));
  CK(cuStreamSynchronize(two));
  std::puts("one of them went first");
  return 0;
}
