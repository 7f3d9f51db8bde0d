// A host function waits on a condition variable that no thread signals, and the host waits for a kernel behind it.
// expect: LG207 culprit=cuLaunchHostFunc
// card: yes
#include "../corpus.hpp"

SCENARIO(host_function_waits) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream work = lg::stream();
  lg::Gate gate;
  CK(lg::launch_one(step, work, counter.device));
  CK(cuLaunchHostFunc(work, [](void* gate) { lg::wait_at(*static_cast<lg::Gate*>(gate)); }, &gate));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  std::puts("the host function returned");
  return 0;
}
