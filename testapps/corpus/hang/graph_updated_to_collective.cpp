// An executable graph of a kernel that ends is updated by one of a collective. It is launched, and the peers never launch theirs.
// expect: LG208 culprit=cuGraphLaunch
// card: yes
#include "../corpus.hpp"

static CUgraph captured(CUfunction function, CUstream work, CUdeviceptr word, unsigned number) {
  CUgraph graph;
  CK(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(function, work, word, number));
  CK(cuStreamEndCapture(work, &graph));
  return graph;
}

SCENARIO(graph_updated_to_collective) {
  lg::open_session();
  const lg::MappedWord joined = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction all_reduce = lg::function(code, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  const CUfunction consume = lg::function(code, "consume");
  const CUstream work = lg::stream();
  CUgraphExec ready;
  CK(cuGraphInstantiate(&ready, captured(consume, work, joined.device, 0), 0));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  CUgraphExecUpdateResultInfo result{};
  CK(cuGraphExecUpdate(ready, captured(all_reduce, work, joined.device, 1), &result));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  std::puts("all ranks have joined");
  return 0;
}
