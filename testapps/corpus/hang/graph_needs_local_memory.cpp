// A graph whose kernel needs more local memory a thread than the context has is made executable while a persistent kernel runs: the call waits until local
// memory can be resized.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_needs_local_memory) {
  const lg::LocalMemory of;
  const CUstream captured = lg::stream();
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(of.large, captured, of.counter.device, 3));
  CK(cuStreamEndCapture(captured, &graph));
  CK(lg::launch_one(of.spin, lg::stream(), of.stop.device));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, captured));
  *of.stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
