// A graph's kernel stands behind a node that waits for an event, and the event behind a kernel on another stream that never ends.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_waits_behind_spinning_kernel) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUdeviceptr counter = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  const CUstream spins = lg::stream(), work = lg::stream();
  const CUevent event = lg::event();
  CUgraph graph;
  CUgraphNode waits, runs;
  CUgraphExec ready;
  CUdeviceptr argument = counter;
  void* parameters[] = {&argument};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = step;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddEventWaitNode(&waits, graph, nullptr, 0, event));
  CK(cuGraphAddKernelNode(&runs, graph, &waits, 1, &kernel));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(lg::launch_one(spin, spins, never_set.device));
  CK(cuEventRecord(event, spins));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  std::puts("the kernel ended");
  return 0;
}
