// A graph waits for a value and then runs a kernel for one and a half T; a node of another graph has written the value by then.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_waits_for_late_value) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream waits = lg::stream(), writes = lg::stream();
  CUgraph graph;
  CUgraphExec reads, stores;
  CK(cuStreamBeginCapture(waits, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_one(busy, waits, lg::pace_ns(1.5)));
  CK(cuStreamEndCapture(waits, &graph));
  CK(cuGraphInstantiate(&reads, graph, 0));
  CK(cuStreamBeginCapture(writes, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(cuStreamWriteValue32(writes, word, 1, 0));
  CK(cuStreamEndCapture(writes, &graph));
  CK(cuGraphInstantiate(&stores, graph, 0));
  CK(cuGraphLaunch(reads, waits));
  CK(cuGraphLaunch(stores, writes));
  CK(cuStreamSynchronize(waits));
  std::puts("the value came");
  return 0;
}
