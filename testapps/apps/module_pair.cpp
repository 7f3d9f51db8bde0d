// The lazy pair through a module instead of a library: cuModuleGetFunction loads each function, so both are loaded before the spin.
//
// bare:    completes, prints "module pair ok"
// guarded: completes, same output
// off:     completes, no verdict
#include <cstdio>

#include "../common/image.hpp"
#include "../common/session.hpp"

int main() {
  lg::open_session();
  const auto code = lg::image("lazy_pair");
  CUmodule module;
  CUfunction k1, k2;
  CUstream s1, s2;
  CK(cuModuleLoadData(&module, code.data()));
  CK(cuModuleGetFunction(&k1, module, "k1"));
  CK(cuModuleGetFunction(&k2, module, "k2"));
  CK(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
  CK(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
  CK(lg::launch_one(k1, s1));
  CK(lg::launch_one(k2, s2));
  CK(cuCtxSynchronize());
  std::puts("module pair ok");
  CK(cuStreamDestroy(s1));
  CK(cuStreamDestroy(s2));
  CK(cuModuleUnload(module));
  return 0;
}
