// A stream waits for word 1 of an array to become 5, and the write goes to word 0.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_wrong_address) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(4);
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(cuStreamWaitValue32(waits, words + 4, 5, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue32(writes, words, 5, 0));
  CK(cuStreamSynchronize(writes));
  CK(cuStreamSynchronize(waits));
  std::puts("word 1 became 5");
  return 0;
}
