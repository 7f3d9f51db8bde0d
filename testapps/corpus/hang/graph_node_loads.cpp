// A kernel node is added to a graph that is never launched. The node's kernel was never used, so adding it loads it beside a
// persistent kernel, and an ordinary launch afterwards does not start.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_node_loads) {
  [[maybe_unused]] const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step"), cold = lg::kernel(code, "set_flag");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));

  CUgraph graph;
  CUgraphNode node;
  CUdeviceptr flag = counter.device;
  void* parameters[] = {&flag};
  CUDA_KERNEL_NODE_PARAMS node_parameters{};
  node_parameters.kern = cold;
  node_parameters.ctx = session.context;
  node_parameters.gridDimX = node_parameters.gridDimY = node_parameters.gridDimZ = 1;
  node_parameters.blockDimX = node_parameters.blockDimY = node_parameters.blockDimZ = 1;
  node_parameters.kernelParams = parameters;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &node_parameters));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 2);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("a node was added");
  return 0;
}
