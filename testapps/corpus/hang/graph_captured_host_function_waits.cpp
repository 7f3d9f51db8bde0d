// A host function is captured. It returns when the graph is launched for the first time, and waits for ever the second time.
// expect: LG207 culprit=cuGraphLaunch
// card: yes
#include "../corpus.hpp"

struct Twice {
  int calls = 0;
  lg::Gate gate;
};

SCENARIO(graph_captured_host_function_waits) {
  lg::open_session();
  const CUstream work = lg::stream();
  Twice twice;
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
  const auto calls = [](void* data) {
    auto& twice = *static_cast<Twice*>(data);
    if (++twice.calls == 2) lg::wait_at(twice.gate);
  };
  CK(cuLaunchHostFunc(work, calls, &twice));
  CK(cuStreamEndCapture(work, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  EXPECT(twice.calls == 1);
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  std::puts("the host function returned");
  return 0;
}
