// A hundred streams have waited for a word each, which the host stored long ago, and nobody asked about them since. Then a graph of one
// and a half T is launched, and the host waits for the context.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(many_finished_streams) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream works = lg::stream();
  CK(lg::launch_one(busy, works, 1ull));
  CK(cuCtxSynchronize());
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(works, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(busy, works, lg::pace_ns(1.5)));
  CK(cuStreamEndCapture(works, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  for (int i = 0; i < 100; ++i) {
    const lg::MappedWord word = lg::mapped_word();
    CK(cuStreamWaitValue32(lg::stream(), word.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
    *word.host = 1;
  }
  lg::pass(0.3);
  CK(cuGraphLaunch(ready, works));
  CK(cuCtxSynchronize());
  std::puts("all are done");
  return 0;
}
