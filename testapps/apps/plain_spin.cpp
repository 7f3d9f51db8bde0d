// A kernel that never ends, and a host that waits for it. It is loaded before; nothing else is in play.
//
// bare:    hangs in cuCtxSynchronize
// guarded: hangs, LG299 (naming the kernel `spin`)
// off:     hangs, LG299
#include <cstdio>

#include "../common/image.hpp"
#include "../common/session.hpp"

int main() {
  lg::open_session();
  const auto code = lg::image("job");
  const lg::MappedWord never_set = lg::mapped_word();
  CUmodule module;
  CUfunction spin;
  CUstream stream;
  CK(cuModuleLoadData(&module, code.data()));
  CK(cuModuleGetFunction(&spin, module, "spin"));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CK(lg::launch_one(spin, stream, never_set.device));
  CK(cuCtxSynchronize());
  std::puts("spin ended");
  return 0;
}
