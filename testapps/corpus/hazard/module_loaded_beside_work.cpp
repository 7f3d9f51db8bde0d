// A module is loaded while a kernel of a second runs: the call waits for that to end, and so would other threads that need the
// context.
// hazard: LG102 call=cuModuleLoadData kernel=- stream=none confidence=possible
// card: yes
#include "../corpus.hpp"

SCENARIO(module_loaded_beside_work) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::ms(1000)));
  const CUmodule other = lg::module("corpus_other");
  CK(cuCtxSynchronize());
  CK(lg::launch_one(lg::function(other, "other_step"), only, counter.device));
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 1);
  std::puts("loaded");
  return 0;
}
