// PTX of many kernels is compiled for five thresholds, with nothing in flight: the thread computes, and waits for nothing.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(ptx_compiles_for_very_long) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  lg::open_session();
  const std::string text = lg::ptx_of(lg::pace_ms() * 5);
  CUmodule compiled;
  CK(cuModuleLoadData(&compiled, text.c_str()));
  std::puts("compiled");
  return 0;
}
