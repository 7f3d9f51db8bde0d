// cuModuleGetFunction loads the function that it is asked for, beside a persistent kernel of the same module, and puts a barrier behind
// that kernel. The function's launch does not start, as in a program on the CUDA runtime 11.8, which uses modules, with a newer driver.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(module_function_loads) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(lg::function(code, "spin_until"), persistent, stop.device));

  CK(lg::launch_one(lg::function(code, "step"), work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 1);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("a function of a module was launched");
  return 0;
}
