// A stream waits for a counter to be exactly 2, and by the time it looks the counter is 3: EQ was written where GEQ was meant.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_overtaken) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), counts = lg::stream();
  for (cuuint32_t value = 1; value <= 3; ++value) CK(cuStreamWriteValue32(counts, word, value, 0));
  CK(cuStreamSynchronize(counts));
  CK(cuStreamWaitValue32(waits, word, 2, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamSynchronize(waits));
  std::puts("the counter was 2");
  return 0;
}
