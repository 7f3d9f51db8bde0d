// PTX of many kernels is compiled while a finite kernel is in flight: the load waits for the kernel, and then for the compiler.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(ptx_compiles_beside_a_kernel) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const std::string text = lg::ptx_of(lg::pace_ms() * 4 / 5);
  CUmodule compiled;
  CK(lg::launch_one(busy, lg::stream(), lg::pace_ns(0.6)));
  CK(cuModuleLoadData(&compiled, text.c_str()));
  CK(cuCtxSynchronize());
  std::puts("compiled");
  return 0;
}
