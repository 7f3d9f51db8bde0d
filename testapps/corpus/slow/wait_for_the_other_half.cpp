// A stream waits for the upper half of a word of 64 bits that another stream writes as a whole, behind a host function that sleeps for one
// and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_for_the_other_half) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(2);
  const CUstream waits = lg::stream(), works = lg::stream();
  CK(cuStreamWaitValue32(waits, word + 4, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuLaunchHostFunc(works, [](void*) { lg::pass(1.5); }, nullptr));
  CK(cuStreamWriteValue64(works, word, 1ull << 32, 0));
  CK(cuStreamSynchronize(waits));
  std::puts("the upper half came");
  return 0;
}
