// A graph's host node waits for the main thread, which waits for the graph.
// expect: LG207 culprit=cuGraphLaunch
// card: yes
#include <future>

#include "../corpus.hpp"

SCENARIO(graph_host_node_never_returns) {
  lg::open_session();
  const CUstream work = lg::stream();
  std::promise<void> promise;
  std::future<void> over = promise.get_future();
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = [](void* data) { static_cast<std::future<void>*>(data)->wait(); };
  host.userData = &over;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec ready;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddHostNode(&node, graph, nullptr, 0, &host));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  promise.set_value();
  std::puts("the host node returned");
  return 0;
}
