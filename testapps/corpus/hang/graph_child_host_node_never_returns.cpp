// A graph holds a kernel and, behind it, a child graph. Its host node waits for the main thread, which waits for the graph.
// expect: LG207 culprit=cuGraphLaunch innocent=step
// card: yes
#include <future>

#include "../corpus.hpp"

SCENARIO(graph_child_host_node_never_returns) {
  lg::open_session();
  const CUdeviceptr counter = lg::device_words(1);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream work = lg::stream();
  std::promise<void> promise;
  std::future<void> over = promise.get_future();
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = [](void* data) { static_cast<std::future<void>*>(data)->wait(); };
  host.userData = &over;
  CUgraph child, graph;
  CUgraphNode node, runs;
  CUgraphExec ready;
  CUdeviceptr argument = counter;
  void* parameters[] = {&argument};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = step;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  CK(cuGraphCreate(&child, 0));
  CK(cuGraphAddHostNode(&node, child, nullptr, 0, &host));
  // A program that asks for what it has given gets that.
  CUDA_HOST_NODE_PARAMS told{};
  CK(cuGraphHostNodeGetParams(node, &told));
  EXPECT(told.fn == host.fn && told.userData == host.userData);
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddKernelNode(&runs, graph, nullptr, 0, &kernel));
  CK(cuGraphAddChildGraphNode(&node, graph, &runs, 1, child));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  promise.set_value();
  std::puts("the host node returned");
  return 0;
}
