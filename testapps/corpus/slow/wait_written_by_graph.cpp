// A stream waits for a value that a kernel in a graph writes, which was launched on another stream and takes one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_by_graph) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream waits = lg::stream(), works = lg::stream();
  CK(lg::launch_one(publish, works, word, 0u, 1ull));
  CK(cuStreamSynchronize(works));
  CUgraph graph;
  CUgraphExec ready;
  CK(cuStreamBeginCapture(works, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(publish, works, word, 1u, lg::pace_ns(1.5)));
  CK(cuStreamEndCapture(works, &graph));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuGraphLaunch(ready, works));
  CK(cuStreamSynchronize(waits));
  std::puts("the graph wrote it");
  return 0;
}
