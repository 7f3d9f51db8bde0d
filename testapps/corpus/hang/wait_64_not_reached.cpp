// A stream waits for a 64-bit sequence number to reach 100, and the last number that is written is 99.
// expect: LG203 culprit=cuStreamWaitValue64_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_64_not_reached) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(2);
  const CUstream waits = lg::stream(), counts = lg::stream();
  CK(cuStreamWaitValue64(waits, word, 100, CU_STREAM_WAIT_VALUE_GEQ));
  for (cuuint64_t number = 1; number < 100; ++number) CK(cuStreamWriteValue64(counts, word, number, 0));
  CK(cuCtxSynchronize());
  std::puts("number 100 came");
  return 0;
}
