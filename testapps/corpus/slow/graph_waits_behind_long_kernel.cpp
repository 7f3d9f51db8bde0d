// A graph waits for an event behind a kernel on another stream that takes one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_waits_behind_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream works = lg::stream(), follows = lg::stream();
  const CUevent event = lg::event();
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec ready;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddEventWaitNode(&node, graph, nullptr, 0, event));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(lg::launch_one(busy, works, lg::pace_ns(1.5)));
  CK(cuEventRecord(event, works));
  CK(cuGraphLaunch(ready, follows));
  CK(cuStreamSynchronize(follows));
  std::puts("the kernel is done");
  return 0;
}
