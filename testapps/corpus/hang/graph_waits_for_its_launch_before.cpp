// A graph is launched behind a kernel that never ends, and again on another stream. The driver runs a graph once at a time, so that the second launch waits
// for the first, and the host for the second.
// expect: LG299 culprit=spin_until innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_waits_for_its_launch_before) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream first = lg::stream(), second = lg::stream();
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(busy, first, lg::ms(1)));
  CK(cuStreamEndCapture(first, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(lg::launch_one(spin, first, never_set.device));
  CK(cuGraphLaunch(ready, first));
  CK(cuGraphLaunch(ready, second));
  CK(cuStreamSynchronize(second));
  std::puts("both launches ended");
  return 0;
}
