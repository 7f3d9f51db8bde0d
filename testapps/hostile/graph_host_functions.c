/* Host functions in graphs: captured, added, changed, in clones and child graphs, in graphs that are updated, launched again and again, more of
 * them than the guard follows, and asked after. Each is called with its own argument, and the program is told what it has given.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

enum { MANY = 6000 };
static int counts[MANY];
static long sum;

static void counts_up(void *count) { ++*(int *)count; }
static void adds(void *number) { sum += (long)(intptr_t)number; }

static CUstream stream;

static void launches(const char *what, CUgraphExec executable, int times) {
  for (int n = 0; n < times; n++) CK(cuGraphLaunch(executable, stream));
  CK(cuStreamSynchronize(stream));
  printf("%s: count %d, sum %ld\n", what, counts[0], sum);
}

static void asks(CUgraphNode node, CUhostFn function, void *argument) {
  CUDA_HOST_NODE_PARAMS told = {0};
  CK(cuGraphHostNodeGetParams(node, &told));
  EXPECT(told.fn == function && told.userData == argument);
}

int main(void) {
  CUdevice device;
  CUcontext context;
  CUgraph graph, clone, parent;
  CUgraphNode node, in_clone, child, list[4];
  CUgraphExec executable;
  CUgraphExecUpdateResultInfo result;
  CUDA_HOST_NODE_PARAMS counting = {counts_up, &counts[0]}, adding = {adds, (void *)(intptr_t)7};
  CUDA_HOST_NODE_PARAMS no_function = {0};
  CUgraphNodeParams any;
  size_t count = 4;
  CK(cuInit(0));
  CK(cuDeviceGet(&device, 0));
  CK(cuDevicePrimaryCtxRetain(&context, device));
  CK(cuCtxSetCurrent(context));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(cuLaunchHostFunc(stream, counts_up, &counts[0]));
  CK(cuLaunchHostFunc(stream, adds, (void *)(intptr_t)1));
  CK(cuStreamEndCapture(stream, &graph));
  CK(cuGraphInstantiate(&executable, graph, 0));
  launches("captured", executable, 3);
  CK(cuGraphGetNodes(graph, list, &count));
  EXPECT(count == 2);
  asks(list[0], counts_up, &counts[0]);
  asks(list[1], adds, (void *)(intptr_t)1);
  CK(cuGraphHostNodeSetParams(list[0], &adding));
  asks(list[0], adds, (void *)(intptr_t)7);
  launches("the graph was changed, not the executable one", executable, 1);
  CK(cuGraphExecUpdate(executable, graph, &result));
  launches("updated", executable, 1);
  CK(cuGraphExecHostNodeSetParams(executable, list[1], &counting));
  launches("a node of the executable one was changed", executable, 1);
  CK(cuGraphExecDestroy(executable));

  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddHostNode(&node, graph, NULL, 0, &adding));
  memset(&any, 0, sizeof any);
  any.type = CU_GRAPH_NODE_TYPE_HOST;
  any.host.fn = counts_up;
  any.host.userData = &counts[0];
  CK(cuGraphAddNode(&child, graph, &node, NULL, 1, &any));
  asks(node, adds, (void *)(intptr_t)7);
  asks(child, counts_up, &counts[0]);
  CK(cuGraphClone(&clone, graph));
  CK(cuGraphNodeFindInClone(&in_clone, node, clone));
  asks(in_clone, adds, (void *)(intptr_t)7);
  CK(cuGraphCreate(&parent, 0));
  CK(cuGraphAddChildGraphNode(&child, parent, NULL, 0, clone));
  CK(cuGraphAddHostNode(&node, parent, &child, 1, &counting));
  CK(cuGraphInstantiate(&executable, parent, 0));
  CK(cuGraphDestroy(graph));
  CK(cuGraphDestroy(clone));
  CK(cuGraphDestroy(parent));
  launches("a clone in a child graph", executable, 2);
  CK(cuGraphExecDestroy(executable));

  CK(cuGraphCreate(&graph, 0));
  printf("a node without a function: %d, without a description: %d\n",
         (int)cuGraphAddHostNode(&node, graph, NULL, 0, &no_function) != CUDA_SUCCESS,
         (int)cuGraphAddHostNode(&node, graph, NULL, 0, NULL) != CUDA_SUCCESS);
  for (int n = 0; n < MANY; n++) {
    counting.userData = &counts[n];
    CK(cuGraphAddHostNode(&node, graph, NULL, 0, &counting));
    asks(node, counts_up, &counts[n]);
  }
  CK(cuGraphInstantiate(&executable, graph, 0));
  memset(counts, 0, sizeof counts);
  launches("many", executable, 2);
  for (int n = 0; n < MANY; n++) EXPECT(counts[n] == 2);
  return 0;
}
