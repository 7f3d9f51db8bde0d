// A loaded kernel that needs more local memory a thread than the context has is launched while a persistent kernel runs: the
// launch waits until local memory can be resized.
// expect: LG204 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(local_memory_grows) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  const CUfunction large = lg::function(code, "many_locals");
  const lg::MappedWord counter = lg::mapped_word();
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(lg::launch_one(large, lg::stream(), counter.device, 3));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
