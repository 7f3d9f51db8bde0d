// A graph whose kernel needs more local memory a thread than the context has is made executable while a persistent kernel runs: the call waits until local
// memory can be resized.
// expect: LG204 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_needs_local_memory) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  const CUfunction large = lg::function(code, "many_locals");
  const lg::MappedWord counter = lg::mapped_word();
  const CUstream captured = lg::stream();
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(large, captured, counter.device, 3));
  CK(cuStreamEndCapture(captured, &graph));
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, captured));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
