// A stream waits for a word of mapped host memory that a thread, which never calls the driver, stores after one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_stored_by_the_host) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  std::thread late([&] {
    lg::pass(1.5);
    *word.host = 1;
  });
  CK(cuStreamSynchronize(waits));
  late.join();
  std::puts("the value was stored late");
  return 0;
}
