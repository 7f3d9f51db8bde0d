// A graph is launched whose kernel never ends, and the host waits for an event behind it.
// expect: LG299 culprit=cuGraphLaunch
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_never_ends) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(only, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(spin, only, never_set.device));
  CK(cuStreamEndCapture(only, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, only));
  const CUevent end = lg::event();
  CK(cuEventRecord(end, only));
  CK(cuEventSynchronize(end));
  std::puts("the graph ended");
  return 0;
}
