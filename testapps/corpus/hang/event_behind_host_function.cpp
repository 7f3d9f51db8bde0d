// A host function that does not return stands in one stream; a second stream waits for an event behind it, and the program polls
// that stream.
// expect: LG207 culprit=cuLaunchHostFunc
// card: yes
#include "../corpus.hpp"

SCENARIO(event_behind_host_function) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream hosts = lg::stream(), follows = lg::stream();
  const CUevent behind = lg::event();
  lg::Gate gate;
  CK(lg::launch_one(step, follows, counter.device));
  CK(cuCtxSynchronize());
  CK(cuLaunchHostFunc(hosts, [](void* gate) { lg::wait_at(*static_cast<lg::Gate*>(gate)); }, &gate));
  CK(cuEventRecord(behind, hosts));
  CK(cuStreamWaitEvent(follows, behind, 0));
  CK(lg::launch_one(step, follows, counter.device));
  while (cuStreamQuery(follows) == CUDA_ERROR_NOT_READY) std::this_thread::sleep_for(std::chrono::microseconds(200));
  std::puts("the host function returned");
  return 0;
}
