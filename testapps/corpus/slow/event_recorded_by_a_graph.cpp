// An event that was last recorded behind an unsatisfied wait is recorded again by a node of a graph that takes one and a half T. A stream that waits
// for it waits for the graph, not for that stream.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(event_recorded_by_a_graph) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  const CUstream parked = lg::stream(), graphs = lg::stream(), follows = lg::stream();
  CK(lg::launch_one(step, follows, words + 4));
  CK(cuCtxSynchronize());
  const CUevent event = lg::event();
  CUgraph graph;
  CUgraphExec ready;
  CUgraphNode works, records;
  unsigned long long lasts = lg::pace_ns(1.5);
  void* parameters[] = {&lasts};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = busy;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddKernelNode(&works, graph, nullptr, 0, &kernel));
  CK(cuGraphAddEventRecordNode(&records, graph, &works, 1, event));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuStreamWaitValue32(parked, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuEventRecord(event, parked));
  CK(cuGraphLaunch(ready, graphs));
  CK(cuStreamWaitEvent(follows, event, 0));
  CK(lg::launch_one(step, follows, words + 4));
  CK(cuStreamSynchronize(follows));
  CK(cuStreamWriteValue32(follows, words, 1, 0));
  CK(cuCtxSynchronize());
  std::puts("the graph recorded it");
  return 0;
}
