// PTX is compiled when the program is already at work, though nothing is in flight at that moment.
// Nothing can wait for the compiler but a clock, so it is only possible.
// hazard: LG108 call=cuModuleLoadData kernel=- stream=none confidence=possible
// card: yes
#include "../corpus.hpp"

SCENARIO(ptx_compiled_after_first_launch) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream only = lg::stream();
  CK(lg::launch_one(step, only, counter.device));
  CK(cuStreamSynchronize(only));
  const std::string text = lg::ptx_of(50);
  CUmodule compiled;
  CK(cuModuleLoadData(&compiled, text.c_str()));
  CK(lg::launch_one(lg::function(compiled, "compiled0"), only));
  CK(cuStreamSynchronize(only));
  std::puts("compiled");
  return 0;
}
