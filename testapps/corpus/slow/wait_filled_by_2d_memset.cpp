// A stream waits for a word that a two-dimensional fill covers, behind a host function that sleeps for one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_filled_by_2d_memset) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(64);
  const CUstream waits = lg::stream(), works = lg::stream();
  CK(cuStreamWaitValue32(waits, words + 4 * 17, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuLaunchHostFunc(works, [](void*) { lg::pass(1.5); }, nullptr));
  CK(cuMemsetD2D32Async(words, 64, 1, 4, 4, works));
  CK(cuStreamSynchronize(waits));
  std::puts("filled");
  return 0;
}
