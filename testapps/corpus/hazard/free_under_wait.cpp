// Memory is freed while a stream waits for a value, which another thread stores a second later: the call waits for the whole
// context. Had it been the thread that stores, neither would have gone on.
// hazard: LG104 call=cuMemFree kernel=- stream=none
// card: yes
#include "../corpus.hpp"

SCENARIO(free_under_wait) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUdeviceptr scratch = lg::device_words(1024);
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  // A guard learns in a moment whether it may look at the word.
  lg::nap(1000);
  std::thread stores([&] {
    lg::nap(1000);
    *word.host = 1;
  });
  CK(cuMemFree(scratch));
  stores.join();
  CK(cuStreamSynchronize(waits));
  std::puts("freed");
  return 0;
}
