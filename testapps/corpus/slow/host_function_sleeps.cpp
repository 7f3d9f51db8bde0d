// A host function sleeps for one and a half T, and the stream behind it is waited for.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(host_function_sleeps) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream work = lg::stream();
  CK(cuLaunchHostFunc(work, [](void*) { lg::pass(1.5); }, nullptr));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  std::puts("the host function slept well");
  return 0;
}
