// Registered memory is unregistered while a persistent kernel runs.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(host_unregister) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  void* pages = std::aligned_alloc(4096, 1 << 20);
  EXPECT(pages != nullptr);
  CK(cuMemHostRegister(pages, 1 << 20, 0));
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuMemHostUnregister(pages));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
