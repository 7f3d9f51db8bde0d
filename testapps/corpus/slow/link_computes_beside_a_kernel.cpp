// The linker compiles PTX of many kernels for five thresholds, beside a kernel that spins: the thread computes, and waits for nothing.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(link_computes_beside_a_kernel) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  CK(lg::launch_one(lg::function(lg::module("corpus"), "spin_until"), lg::stream(), stop.device));
  std::string text = lg::ptx_of(lg::pace_ms() * 5);
  CUlinkState link;
  void* linked;
  size_t bytes;
  CK(cuLinkCreate(0, nullptr, nullptr, &link));
  CK(cuLinkAddData(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "many", 0, nullptr, nullptr));
  CK(cuLinkComplete(link, &linked, &bytes));
  EXPECT(bytes > 0);
  CK(cuLinkDestroy(link));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("linked");
  return 0;
}
