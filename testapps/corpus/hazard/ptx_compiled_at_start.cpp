// PTX is compiled before the program launches anything.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(ptx_compiled_at_start) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  lg::open_session();
  const std::string text = lg::ptx_of(50);
  CUmodule compiled;
  CK(cuModuleLoadData(&compiled, text.c_str()));
  const CUfunction first = lg::function(compiled, "compiled0");
  const CUstream only = lg::stream();
  CK(lg::launch_one(first, only));
  CK(cuStreamSynchronize(only));
  std::puts("compiled");
  return 0;
}
