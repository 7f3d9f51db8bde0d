// A graph of a kernel, a collective and a kernel is launched, and the peers never launch theirs.
// expect: LG208 culprit=cuGraphLaunch innocent=step
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_collective_skipped) {
  lg::open_session();
  const lg::MappedWord joined = lg::mapped_word();
  const CUdeviceptr counter = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  const CUfunction step = lg::function(code, "step"), all_reduce = lg::function(code, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  const CUstream work = lg::stream();
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(step, work, counter));
  CK(lg::launch_one(all_reduce, work, joined.device, 1u));
  CK(lg::launch_one(step, work, counter));
  CK(cuStreamEndCapture(work, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  std::puts("all ranks have joined");
  return 0;
}
