// Nodes of graphs, by kind: added, asked, changed in the graph and in the executable graph.
#include "atlas.hpp"

namespace atlas {
namespace {

CUDA_KERNEL_NODE_PARAMS *kernel(Bench &b) { return kept(b.kernel_node(b.warm)); }

CUDA_KERNEL_NODE_PARAMS *cold_kernel(Bench &b) {
  CUDA_KERNEL_NODE_PARAMS p = b.kernel_node(nullptr);
  p.kern = b.kernel2;
  return kept(p);
}

CUDA_MEMCPY3D *copy(Bench &b) {
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = b.buffer;
  p.dstDevice = b.buffer + k16M;
  p.WidthInBytes = k4K;
  p.Height = p.Depth = 1;
  return kept(p);
}

CUDA_MEMSET_NODE_PARAMS *set(Bench &b) {
  CUDA_MEMSET_NODE_PARAMS p{};
  p.dst = b.buffer;
  p.elementSize = 4;
  p.width = 1024;
  p.height = 1;
  return kept(p);
}

void CUDA_CB on_host(void *) {}

CUDA_HOST_NODE_PARAMS *host() {
  CUDA_HOST_NODE_PARAMS p{};
  p.fn = on_host;
  return kept(p);
}

CUDA_BATCH_MEM_OP_NODE_PARAMS *batch(Bench &b) {
  CUstreamBatchMemOpParams op{};
  op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = b.buffer + k4K;
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
  p.ctx = b.context;
  p.count = 1;
  p.paramArray = kept(op);
  return kept(p);
}

CUDA_MEM_ALLOC_NODE_PARAMS *allocation(Bench &b) {
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.poolProps.location.id = b.device;
  p.bytesize = k1M;
  return kept(p);
}

CUgraphNodeParams *any(Bench &b) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_KERNEL;
  const CUDA_KERNEL_NODE_PARAMS *k = kernel(b);
  p.kernel.func = k->func;
  p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
  p.kernel.kernelParams = k->kernelParams;
  return kept(p);
}

void child(Bench &b) {
  b.new_kernel_node();
  b.graph2 = b.graph;
  b.new_graph();
}

// A graph with one node of a kind, and b.exec of it.
void with_copy(Bench &b) {
  b.new_graph();
  must(cuGraphAddMemcpyNode(&b.node, b.graph, nullptr, 0, copy(b), b.context));
}
void with_set(Bench &b) {
  b.new_graph();
  must(cuGraphAddMemsetNode(&b.node, b.graph, nullptr, 0, set(b), b.context));
}
void with_host(Bench &b) {
  b.new_graph();
  must(cuGraphAddHostNode(&b.node, b.graph, nullptr, 0, host()));
}
void with_child(Bench &b) {
  child(b);
  must(cuGraphAddChildGraphNode(&b.node, b.graph, nullptr, 0, b.graph2));
}
void with_record(Bench &b) {
  b.new_graph();
  must(cuGraphAddEventRecordNode(&b.node, b.graph, nullptr, 0, b.event));
}
void with_wait(Bench &b) {
  b.new_graph();
  must(cuGraphAddEventWaitNode(&b.node, b.graph, nullptr, 0, b.event));
}
void with_batch(Bench &b) {
  b.new_graph();
  must(cuGraphAddBatchMemOpNode(&b.node, b.graph, nullptr, 0, batch(b)));
}
void with_allocation(Bench &b) {
  b.new_graph();
  CUDA_MEM_ALLOC_NODE_PARAMS *p = allocation(b);
  must(cuGraphAddMemAllocNode(&b.node, b.graph, nullptr, 0, p));
  b.memory = p->dptr;
}
void with_free(Bench &b) {
  with_allocation(b);
  must(cuGraphAddMemFreeNode(&b.node2, b.graph, &b.node, 1, b.memory));
}

void exec_of(Bench &b, void (*graph)(Bench &)) {
  graph(b);
  b.new_exec();
}

void exec_of_kernel(Bench &b) {
  b.new_kernel_node();
  b.new_exec();
}

void two_kernel_nodes(Bench &b) {
  b.new_kernel_node();
  must(cuGraphAddKernelNode(&b.node2, b.graph, &b.node, 1, kernel(b)));
}

CUkernelNodeAttrValue *value() {
  out<CUkernelNodeAttrValue>()->priority = 0;
  return out<CUkernelNodeAttrValue>();
}

}  // namespace

void graph_node_calls() {
  CALL(cuGraphAddKernelNode, "-", b.new_graph(), cuGraphAddKernelNode(&b.node, b.graph, nullptr, 0, kernel(b)));
  CALL(cuGraphAddKernelNode, "cold function", (b.new_graph(), b.new_module()),
       cuGraphAddKernelNode(&b.node, b.graph, nullptr, 0, kept(b.kernel_node(b.unloaded))));
  CALL(cuGraphAddKernelNode, "cold library", (b.new_graph(), b.new_library()),
       cuGraphAddKernelNode(&b.node, b.graph, nullptr, 0, cold_kernel(b)));
  CALL(cuGraphKernelNodeGetParams, "-", b.new_kernel_node(), cuGraphKernelNodeGetParams(b.node, out<CUDA_KERNEL_NODE_PARAMS>()));
  CALL(cuGraphKernelNodeSetParams, "-", b.new_kernel_node(), cuGraphKernelNodeSetParams(b.node, kernel(b)));
  CALL(cuGraphKernelNodeSetParams, "cold function", (b.new_kernel_node(), b.new_module()),
       cuGraphKernelNodeSetParams(b.node, kept(b.kernel_node(b.unloaded))));
  CALL(cuGraphKernelNodeSetParams, "cold library", (b.new_kernel_node(), b.new_library()),
       cuGraphKernelNodeSetParams(b.node, cold_kernel(b)));
  CALL(cuGraphExecKernelNodeSetParams, "-", exec_of_kernel(b), cuGraphExecKernelNodeSetParams(b.exec, b.node, kernel(b)));
  CALL(cuGraphExecKernelNodeSetParams, "cold function", (exec_of_kernel(b), b.new_module()),
       cuGraphExecKernelNodeSetParams(b.exec, b.node, kept(b.kernel_node(b.unloaded))));
  CALL(cuGraphExecKernelNodeSetParams, "cold library", (exec_of_kernel(b), b.new_library()),
       cuGraphExecKernelNodeSetParams(b.exec, b.node, cold_kernel(b)));
  CALL(cuGraphKernelNodeCopyAttributes, "-", two_kernel_nodes(b), cuGraphKernelNodeCopyAttributes(b.node2, b.node));
  CALL(cuGraphKernelNodeGetAttribute, "-", b.new_kernel_node(),
       cuGraphKernelNodeGetAttribute(b.node, CU_LAUNCH_ATTRIBUTE_PRIORITY, out<CUkernelNodeAttrValue>()));
  CALL(cuGraphKernelNodeSetAttribute, "-", b.new_kernel_node(),
       cuGraphKernelNodeSetAttribute(b.node, CU_LAUNCH_ATTRIBUTE_PRIORITY, value()));

  CALL(cuGraphAddMemcpyNode, "-", b.new_graph(), cuGraphAddMemcpyNode(&b.node, b.graph, nullptr, 0, copy(b), b.context));
  CALL(cuGraphMemcpyNodeGetParams, "-", with_copy(b), cuGraphMemcpyNodeGetParams(b.node, out<CUDA_MEMCPY3D>()));
  CALL(cuGraphMemcpyNodeSetParams, "-", with_copy(b), cuGraphMemcpyNodeSetParams(b.node, copy(b)));
  CALL(cuGraphExecMemcpyNodeSetParams, "-", exec_of(b, with_copy), cuGraphExecMemcpyNodeSetParams(b.exec, b.node, copy(b), b.context));
  CALL(cuGraphAddMemsetNode, "-", b.new_graph(), cuGraphAddMemsetNode(&b.node, b.graph, nullptr, 0, set(b), b.context));
  CALL(cuGraphMemsetNodeGetParams, "-", with_set(b), cuGraphMemsetNodeGetParams(b.node, out<CUDA_MEMSET_NODE_PARAMS>()));
  CALL(cuGraphMemsetNodeSetParams, "-", with_set(b), cuGraphMemsetNodeSetParams(b.node, set(b)));
  CALL(cuGraphExecMemsetNodeSetParams, "-", exec_of(b, with_set), cuGraphExecMemsetNodeSetParams(b.exec, b.node, set(b), b.context));
  CALL(cuGraphAddHostNode, "-", b.new_graph(), cuGraphAddHostNode(&b.node, b.graph, nullptr, 0, host()));
  CALL(cuGraphHostNodeGetParams, "-", with_host(b), cuGraphHostNodeGetParams(b.node, out<CUDA_HOST_NODE_PARAMS>()));
  CALL(cuGraphHostNodeSetParams, "-", with_host(b), cuGraphHostNodeSetParams(b.node, host()));
  CALL(cuGraphExecHostNodeSetParams, "-", exec_of(b, with_host), cuGraphExecHostNodeSetParams(b.exec, b.node, host()));
  CALL(cuGraphAddChildGraphNode, "-", child(b), cuGraphAddChildGraphNode(&b.node, b.graph, nullptr, 0, b.graph2));
  CALL(cuGraphChildGraphNodeGetGraph, "-", with_child(b), cuGraphChildGraphNodeGetGraph(b.node, out<CUgraph>()));
  CALL(cuGraphExecChildGraphNodeSetParams, "-", exec_of(b, with_child), cuGraphExecChildGraphNodeSetParams(b.exec, b.node, b.graph2));
  CALL(cuGraphAddEmptyNode, "-", b.new_graph(), cuGraphAddEmptyNode(&b.node, b.graph, nullptr, 0));
  CALL(cuGraphAddEventRecordNode, "-", b.new_graph(), cuGraphAddEventRecordNode(&b.node, b.graph, nullptr, 0, b.event));
  CALL(cuGraphEventRecordNodeGetEvent, "-", with_record(b), cuGraphEventRecordNodeGetEvent(b.node, out<CUevent>()));
  CALL(cuGraphEventRecordNodeSetEvent, "-", with_record(b), cuGraphEventRecordNodeSetEvent(b.node, b.event));
  CALL(cuGraphExecEventRecordNodeSetEvent, "-", exec_of(b, with_record), cuGraphExecEventRecordNodeSetEvent(b.exec, b.node, b.event));
  CALL(cuGraphAddEventWaitNode, "-", b.new_graph(), cuGraphAddEventWaitNode(&b.node, b.graph, nullptr, 0, b.event));
  CALL(cuGraphEventWaitNodeGetEvent, "-", with_wait(b), cuGraphEventWaitNodeGetEvent(b.node, out<CUevent>()));
  CALL(cuGraphEventWaitNodeSetEvent, "-", with_wait(b), cuGraphEventWaitNodeSetEvent(b.node, b.event));
  CALL(cuGraphExecEventWaitNodeSetEvent, "-", exec_of(b, with_wait), cuGraphExecEventWaitNodeSetEvent(b.exec, b.node, b.event));
  CALL(cuGraphAddBatchMemOpNode, "-", b.new_graph(), cuGraphAddBatchMemOpNode(&b.node, b.graph, nullptr, 0, batch(b)));
  CALL(cuGraphBatchMemOpNodeGetParams, "-", with_batch(b), cuGraphBatchMemOpNodeGetParams(b.node, out<CUDA_BATCH_MEM_OP_NODE_PARAMS>()));
  CALL(cuGraphBatchMemOpNodeSetParams, "-", with_batch(b), cuGraphBatchMemOpNodeSetParams(b.node, batch(b)));
  CALL(cuGraphExecBatchMemOpNodeSetParams, "-", exec_of(b, with_batch), cuGraphExecBatchMemOpNodeSetParams(b.exec, b.node, batch(b)));
  CALL(cuGraphAddMemAllocNode, "-", b.new_graph(), cuGraphAddMemAllocNode(&b.node, b.graph, nullptr, 0, allocation(b)));
  CALL(cuGraphMemAllocNodeGetParams, "-", with_allocation(b), cuGraphMemAllocNodeGetParams(b.node, out<CUDA_MEM_ALLOC_NODE_PARAMS>()));
  CALL(cuGraphAddMemFreeNode, "-", with_allocation(b), cuGraphAddMemFreeNode(&b.node2, b.graph, &b.node, 1, b.memory));
  CALL(cuGraphMemFreeNodeGetParams, "-", with_free(b), cuGraphMemFreeNodeGetParams(b.node2, out<CUdeviceptr>()));
  CALL_ONCE(cuGraphInstantiate, "allocation", with_free(b), cuGraphInstantiate(&b.exec, b.graph, 0));
  CALL_ONCE(cuGraphLaunch, "allocation", exec_of(b, with_free), cuGraphLaunch(b.exec, b.idle));

  CALL(cuGraphAddNode, "-", b.new_graph(), cuGraphAddNode(&b.node, b.graph, nullptr, nullptr, 0, any(b)));
  CALL(cuGraphNodeSetParams, "-", b.new_kernel_node(), cuGraphNodeSetParams(b.node, any(b)));
  CALL(cuGraphExecNodeSetParams, "-", exec_of_kernel(b), cuGraphExecNodeSetParams(b.exec, b.node, any(b)));
  CALL(cuGraphNodeSetEnabled, "-", exec_of_kernel(b), cuGraphNodeSetEnabled(b.exec, b.node, 0));
  CALL(cuGraphNodeGetEnabled, "-", exec_of_kernel(b), cuGraphNodeGetEnabled(b.exec, b.node, out<unsigned>()));
}

}  // namespace atlas
