// The write that a stream waits for was submitted, to the same stream, behind the wait.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_before_its_writer) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream only = lg::stream();
  CK(cuStreamWaitValue32(only, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue32(only, word, 1, 0));
  CK(cuStreamSynchronize(only));
  std::puts("the stream wrote its own value");
  return 0;
}
