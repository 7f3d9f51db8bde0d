// An executable graph is launched behind a kernel that never ends, and again on a stream of a second context. The driver runs it once at a time, so that
// the thread that synchronizes the second context waits for the kernel of the first one.
// expect: LG299 culprit=spin_until innocent=busy_for
// card: no, because whether a graph goes to another context's stream there is not measured
#include "../corpus.hpp"

SCENARIO(graph_waits_for_its_launch_in_another_context) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream first = lg::stream();
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(busy, first, lg::ms(1)));
  CK(cuStreamEndCapture(first, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CUcontext other;
  CK(cuCtxCreate(&other, nullptr, 0, session.device));
  const CUstream second = lg::stream();
  CK(cuCtxSetCurrent(session.context));
  CK(lg::launch_one(spin, first, never_set.device));
  CK(cuGraphLaunch(ready, first));
  CK(cuCtxSetCurrent(other));
  CK(cuGraphLaunch(ready, second));
  CK(cuCtxSynchronize());
  std::puts("both launches ended");
  return 0;
}
