// The stack limit of the context is raised while a stream waits for a value, which another thread stores a second later.
// hazard: LG104 call=cuCtxSetLimit kernel=- stream=none
// card: yes
#include "../corpus.hpp"

SCENARIO(stack_limit_under_wait) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUstream waits = lg::stream();
  size_t bytes;
  CK(cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  // A guard learns in a moment whether it may look at the word.
  lg::nap(1000);
  std::thread stores([&] {
    lg::nap(1000);
    *word.host = 1;
  });
  CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 * bytes));
  stores.join();
  CK(cuStreamSynchronize(waits));
  std::puts("the limit is raised");
  return 0;
}
