// A stream callback waits for the main thread, which opens the gate after it has synchronized the stream of the callback.
// expect: LG207 culprit=cuStreamAddCallback
// card: yes
#include "../corpus.hpp"

SCENARIO(callback_waits_for_main) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream work = lg::stream();
  lg::Gate gate;
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamAddCallback(work, [](CUstream, CUresult, void* gate) { lg::wait_at(*static_cast<lg::Gate*>(gate)); }, &gate, 0));
  CK(cuStreamSynchronize(work));
  {
    std::lock_guard<std::mutex> hold(gate.mutex);
    gate.open = true;
  }
  gate.opened.notify_all();
  std::puts("the callback returned");
  return 0;
}
