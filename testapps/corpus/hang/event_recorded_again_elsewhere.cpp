// A stream waits for an event behind a kernel that never ends. The event is then recorded again on an idle stream and is complete, which
// changes nothing about the wait.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(event_recorded_again_elsewhere) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  const CUstream spins = lg::stream(), follows = lg::stream(), idle = lg::stream();
  const CUevent event = lg::event();
  CK(lg::launch_one(step, follows, counter.device));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(spin, spins, never_set.device));
  CK(cuEventRecord(event, spins));
  CK(cuStreamWaitEvent(follows, event, 0));
  CK(lg::launch_one(step, follows, counter.device));
  CK(cuEventRecord(event, idle));
  CK(cuEventSynchronize(event));
  CK(cuStreamSynchronize(follows));
  std::puts("it ended");
  return 0;
}
