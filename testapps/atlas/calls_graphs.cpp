// Graphs as a whole: made, instantiated, changed, launched.
#include "atlas.hpp"

namespace atlas {
namespace {

void instantiated(Bench &b) {
  b.new_kernel_node();
  b.new_exec();
}

void launched_before(Bench &b) {
  instantiated(b);
  must(cuGraphLaunch(b.exec, b.idle));
}

void cold_node(Bench &b) {
  b.new_graph();
  b.new_library();
  CUDA_KERNEL_NODE_PARAMS p = b.kernel_node(nullptr);
  p.kern = b.kernel2;
  must(cuGraphAddKernelNode(&b.node, b.graph, nullptr, 0, &p));
}

// Two empty nodes.
void two_nodes(Bench &b) {
  b.new_graph();
  must(cuGraphAddEmptyNode(&b.node, b.graph, nullptr, 0));
  must(cuGraphAddEmptyNode(&b.node2, b.graph, nullptr, 0));
}

void two_joined_nodes(Bench &b) {
  b.new_graph();
  must(cuGraphAddEmptyNode(&b.node, b.graph, nullptr, 0));
  must(cuGraphAddEmptyNode(&b.node2, b.graph, &b.node, 1));
}

// An executable graph and another graph of the same form.
void to_update(Bench &b) {
  launched_before(b);
  CUgraphExec exec = b.exec;
  b.new_kernel_node();
  b.exec = exec;
}

CUresult with_parameters(Bench &b) {
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  return cuGraphInstantiateWithParams(&b.exec, b.graph, &p);
}

CUresult with_upload(Bench &b) {
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  p.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  p.hUploadStream = b.idle;
  return cuGraphInstantiateWithParams(&b.exec, b.graph, &p);
}

void CUDA_CB forget(void *) {}

void new_object(Bench &b) { must(cuUserObjectCreate(&b.object, &b.word, forget, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)); }

void object_of_graph(Bench &b) {
  new_object(b);
  b.new_graph();
  must(cuGraphRetainUserObject(b.graph, b.object, 1, 0));
}

}  // namespace

void graph_calls() {
  CALL(cuGraphCreate, "-", NOTHING, cuGraphCreate(&b.graph, 0));
  CALL(cuGraphDestroy, "-", b.new_kernel_node(), cuGraphDestroy(b.graph));
  CALL(cuGraphClone, "-", b.new_kernel_node(), cuGraphClone(&b.graph2, b.graph));
  CALL(cuGraphNodeFindInClone, "-", (b.new_kernel_node(), must(cuGraphClone(&b.graph2, b.graph))),
       cuGraphNodeFindInClone(out<CUgraphNode>(), b.node, b.graph2));
  CALL(cuGraphNodeGetType, "-", b.new_kernel_node(), cuGraphNodeGetType(b.node, out<CUgraphNodeType>()));
  CALL(cuGraphGetNodes, "-", b.new_kernel_node(), cuGraphGetNodes(b.graph, nullptr, out<size_t>()));
  CALL(cuGraphGetRootNodes, "-", b.new_kernel_node(), cuGraphGetRootNodes(b.graph, nullptr, out<size_t>()));
  CALL(cuGraphGetEdges, "-", two_joined_nodes(b), cuGraphGetEdges(b.graph, nullptr, nullptr, nullptr, out<size_t>()));
  CALL(cuGraphNodeGetDependencies, "-", two_joined_nodes(b), cuGraphNodeGetDependencies(b.node2, nullptr, nullptr, out<size_t>()));
  CALL(cuGraphNodeGetDependentNodes, "-", two_joined_nodes(b), cuGraphNodeGetDependentNodes(b.node, nullptr, nullptr, out<size_t>()));
  CALL(cuGraphAddDependencies, "-", two_nodes(b), cuGraphAddDependencies(b.graph, &b.node, &b.node2, nullptr, 1));
  CALL(cuGraphRemoveDependencies, "-", two_joined_nodes(b), cuGraphRemoveDependencies(b.graph, &b.node, &b.node2, nullptr, 1));
  CALL(cuGraphDestroyNode, "-", b.new_kernel_node(), cuGraphDestroyNode(b.node));
  CALL(cuGraphInstantiate, "-", b.new_kernel_node(), cuGraphInstantiate(&b.exec, b.graph, 0));
  CALL(cuGraphInstantiate, "cold library", cold_node(b), cuGraphInstantiate(&b.exec, b.graph, 0));
  CALL(cuGraphInstantiateWithFlags, "-", b.new_kernel_node(), cuGraphInstantiateWithFlags(&b.exec, b.graph, 0));
  CALL(cuGraphInstantiateWithParams, "-", b.new_kernel_node(), with_parameters(b));
  CALL(cuGraphInstantiateWithParams, "upload", b.new_kernel_node(), with_upload(b));
  CALL(cuGraphExecGetFlags, "-", instantiated(b), cuGraphExecGetFlags(b.exec, out<cuuint64_t>()));
  CALL_ONCE(cuGraphUpload, "-", instantiated(b), cuGraphUpload(b.exec, b.idle));
  CALL(cuGraphLaunch, "-", launched_before(b), cuGraphLaunch(b.exec, b.idle));
  CALL(cuGraphLaunch, "first", instantiated(b), cuGraphLaunch(b.exec, b.idle));
  CALL(cuGraphLaunch, "busy", launched_before(b), cuGraphLaunch(b.exec, b.busy));
  CALL(cuGraphExecDestroy, "-", launched_before(b), cuGraphExecDestroy(b.exec));
  CALL(cuGraphExecUpdate, "-", to_update(b), cuGraphExecUpdate(b.exec, b.graph, out<CUgraphExecUpdateResultInfo>()));
  CALL(cuGraphDebugDotPrint, "-", b.new_kernel_node(), cuGraphDebugDotPrint(b.graph, "/dev/null", 0));
  CALL(cuGraphConditionalHandleCreate, "-", b.new_graph(),
       cuGraphConditionalHandleCreate(out<CUgraphConditionalHandle>(), b.graph, b.context, 0, 0));
  CALL(cuUserObjectCreate, "-", NOTHING, cuUserObjectCreate(&b.object, &b.word, forget, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  CALL(cuUserObjectRetain, "-", new_object(b), cuUserObjectRetain(b.object, 1));
  CALL(cuUserObjectRelease, "-", new_object(b), cuUserObjectRelease(b.object, 1));
  CALL(cuGraphRetainUserObject, "-", (new_object(b), b.new_graph()), cuGraphRetainUserObject(b.graph, b.object, 1, 0));
  CALL(cuGraphReleaseUserObject, "-", object_of_graph(b), cuGraphReleaseUserObject(b.graph, b.object, 1));
}

}  // namespace atlas
