// A stream waits for a 64-bit word to reach a value above 2^32, and the writer writes its low half only, with the 32-bit call.
// expect: LG203 culprit=cuStreamWaitValue64_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_64_low_half_written) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(2);
  const CUstream waits = lg::stream(), writes = lg::stream();
  const cuuint64_t value = (cuuint64_t{1} << 32) + 9;
  CK(cuStreamWaitValue64(waits, word, value, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamWriteValue32(writes, word, static_cast<cuuint32_t>(value), 0));
  CK(cuStreamSynchronize(writes));
  CK(cuStreamSynchronize(waits));
  std::puts("the word is wide enough");
  return 0;
}
