// The stack limit of the context is raised while a persistent kernel runs.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(stack_limit) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  size_t bytes;
  CK(cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 * bytes));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
