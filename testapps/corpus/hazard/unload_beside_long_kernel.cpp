// A module that nothing in flight uses is unloaded when a kernel of a second and a half has run for a good while.
// hazard: LG104 call=cuModuleUnload kernel=- stream=none
// card: yes
#include "../corpus.hpp"

SCENARIO(unload_beside_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUmodule other = lg::module("corpus_other");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::ms(1500)));
  lg::nap(200);
  CK(cuModuleUnload(other));
  CK(cuStreamSynchronize(only));
  std::puts("unloaded");
  return 0;
}
