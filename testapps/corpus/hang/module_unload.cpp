// A module that nothing in flight uses is unloaded while a persistent kernel of another runs.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(module_unload) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  const CUmodule other = lg::module("corpus_other");
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuModuleUnload(other));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
