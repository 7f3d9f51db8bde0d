// A launch is captured into a graph and goes nowhere, but its kernel was never used: the capture loads it beside a persistent
// kernel, and an ordinary launch afterwards does not start.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(capture_loads) {
  [[maybe_unused]] const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step"), cold = lg::kernel(code, "set_flag");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));

  CUgraph graph;
  const CUstream captured = lg::stream();
  CK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CK(lg::launch_one(cold, captured, counter.device));
  CK(cuStreamEndCapture(captured, &graph));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 2);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("a launch was captured");
  return 0;
}
