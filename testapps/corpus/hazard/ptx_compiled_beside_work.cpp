// PTX is compiled and loaded while a kernel of a second runs: the module waits for that, and the program for the compiler. The
// kernel has run for a good while by then: a compiler's time says nothing about what runs beside it.
// hazard: LG102 call=cuModuleLoadData kernel=- stream=none
// hazard: LG108 call=cuModuleLoadData kernel=- stream=none
// card: yes
#include "../corpus.hpp"

SCENARIO(ptx_compiled_beside_work) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const std::string text = lg::ptx_of(50);
  CUmodule compiled;
  CK(lg::launch_one(busy, lg::stream(), lg::ms(1000)));
  lg::nap(200);
  CK(cuModuleLoadData(&compiled, text.c_str()));
  CK(cuCtxSynchronize());
  std::puts("compiled");
  return 0;
}
