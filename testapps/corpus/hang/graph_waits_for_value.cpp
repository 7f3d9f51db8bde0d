// A graph's node waits for a value that nothing writes.
// expect: LG203 culprit=cuGraphLaunch
// card: yes
#include "../corpus.hpp"

SCENARIO(graph_waits_for_value) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream work = lg::stream();
  CUstreamBatchMemOpParams wait{};
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = word;
  wait.waitValue.value = 1;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  CUDA_BATCH_MEM_OP_NODE_PARAMS operations{};
  operations.ctx = session.context;
  operations.count = 1;
  operations.paramArray = &wait;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec ready;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &operations));
  CK(cuGraphInstantiate(&ready, graph, 0));
  CK(cuGraphLaunch(ready, work));
  CK(cuStreamSynchronize(work));
  std::puts("the value came");
  return 0;
}
