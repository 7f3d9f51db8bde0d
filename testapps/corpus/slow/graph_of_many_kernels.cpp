// A graph of fifteen hundred kernels, the last of which takes one and a half T, and a short host function among them. It is launched twice.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_of_many_kernels) {
  lg::open_session();
  const CUdeviceptr counter = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  const CUfunction step = lg::function(code, "step"), busy = lg::function(code, "busy_for");
  const CUstream work = lg::stream();
  std::atomic<int> calls{0};
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int n = 0; n < 1499; ++n) CK(lg::launch_one(step, work, counter));
  CK(cuLaunchHostFunc(work, [](void* calls) { ++*static_cast<std::atomic<int>*>(calls); }, &calls));
  CK(lg::launch_one(busy, work, lg::pace_ns(1.5)));
  CK(cuStreamEndCapture(work, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  for (int n = 0; n < 2; ++n) {
    CK(cuGraphLaunch(ready, work));
    CK(cuStreamSynchronize(work));
  }
  EXPECT(calls == 2);
  std::puts("the graph ran twice");
  return 0;
}
