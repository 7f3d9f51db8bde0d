// A thread captures a graph for two T, and records in it an event that was recorded behind a long kernel before, while the main thread
// waits for that kernel. Whoever asks about the event meanwhile breaks the capture.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(event_recorded_again_in_capture) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  const CUstream works = lg::stream(), captured = lg::stream();
  CK(lg::launch_one(step, captured, counter.device));
  CK(cuCtxSynchronize());
  const CUevent event = lg::event();
  CK(lg::launch_one(busy, works, lg::pace_ns(1.5)));
  CK(cuEventRecord(event, works));
  std::atomic<bool> begun{false};
  std::thread captures = lg::thread_in(session.context, [&] {
    CUgraph graph;
    CK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CK(lg::launch_one(step, captured, counter.device));
    CK(cuEventRecord(event, captured));
    begun = true;
    lg::pass(2);
    CK(lg::launch_one(step, captured, counter.device));
    CK(cuStreamEndCapture(captured, &graph));
  });
  while (!begun) std::this_thread::yield();
  CK(cuStreamSynchronize(works));
  captures.join();
  std::puts("captured");
  return 0;
}
