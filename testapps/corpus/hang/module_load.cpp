// A second module is loaded while a persistent kernel of the first runs. Nobody knows the module before, so nothing can load it
// earlier.
// expect: LG202 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(module_load) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  lg::module("corpus_other");
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the second module was loaded");
  return 0;
}
