// Pinned memory is freed while a persistent kernel runs.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(free_host) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  void* pinned;
  CK(cuMemHostAlloc(&pinned, 1 << 20, 0));
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuMemFreeHost(pinned));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
