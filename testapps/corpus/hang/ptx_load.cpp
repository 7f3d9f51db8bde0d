// PTX is compiled and loaded with cuModuleLoadData while a persistent kernel runs: the compilation ends, the load does not.
// expect: LG202 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(ptx_load) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const std::string text = lg::ptx_of(3);
  CUmodule compiled;
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuModuleLoadData(&compiled, text.c_str()));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the PTX was loaded");
  return 0;
}
