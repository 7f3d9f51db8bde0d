// PTX of many kernels is compiled for a good while, with nothing in flight.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(ptx_compiles) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  lg::open_session();
  const std::string text = lg::ptx_of(lg::pace_ms() * 3 / 2);
  CUmodule compiled;
  CK(cuModuleLoadData(&compiled, text.c_str()));
  std::puts("compiled");
  return 0;
}
