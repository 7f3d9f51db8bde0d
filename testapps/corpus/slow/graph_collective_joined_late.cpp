// A graph of a collective is launched, and the peers join after one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_collective_joined_late) {
  lg::open_session();
  const lg::MappedWord joined = lg::mapped_word();
  const CUfunction all_reduce = lg::function(lg::module("corpus"), "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  const CUstream work = lg::stream();
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(all_reduce, work, joined.device, 1u));
  CK(cuStreamEndCapture(work, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, work));
  std::thread peers([&] {
    lg::pass(1.5);
    __atomic_store_n(joined.host, 1, __ATOMIC_RELEASE);
  });
  CK(cuStreamSynchronize(work));
  peers.join();
  std::puts("all ranks have joined");
  return 0;
}
