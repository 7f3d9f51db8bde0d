// A graph's host node sleeps for one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_host_node_sleeps) {
  lg::open_session();
  const CUstream work = lg::stream();
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = [](void*) { lg::pass(1.5); };
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec ready;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddHostNode(&node, graph, nullptr, 0, &host));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  std::puts("the host node slept well");
  return 0;
}
