// A synchronous copy stands behind a stream that synchronizes with the legacy one and waits for a value, which another thread stores a
// second later.
// hazard: LG104 call=cuMemcpyDtoH kernel=- stream=legacy
// card: yes
#include "../corpus.hpp"

SCENARIO(copy_under_wait) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUdeviceptr memory = lg::device_words(16);
  unsigned copy[16] = {1};
  const CUstream waits = lg::stream(CU_STREAM_DEFAULT);
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  // A guard learns in a moment whether it may look at the word.
  lg::nap(1000);
  std::thread stores([&] {
    lg::nap(1000);
    *word.host = 1;
  });
  CK(cuMemcpyDtoH(copy, memory, sizeof copy));
  stores.join();
  EXPECT(copy[0] == 0);
  std::puts("copied");
  return 0;
}
