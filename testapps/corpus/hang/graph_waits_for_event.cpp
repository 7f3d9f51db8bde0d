// A graph with a node that waits for an event is launched; the event stands behind a wait on another stream that nobody satisfies.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_waits_for_event) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), work = lg::stream();
  const CUevent event = lg::event();
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec ready;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddEventWaitNode(&node, graph, nullptr, 0, event));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuEventRecord(event, waits));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  std::puts("the value came");
  return 0;
}
