// Graphs: building them, making them executable, launching them. Adding a kernel node loads its function.
//
// A launch turns every node into an op with the edges as dependencies, so that nodes without an edge between them run beside
// each other, as they do on a device.
#include "graph.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"

namespace lgsim {

std::mutex &graph_mutex() {
  static std::mutex *const m = new std::mutex;
  return *m;
}

GraphRef new_graph() {
  GraphRef graph = std::make_shared<Graph>();
  registry().add(graph);
  return graph;
}

void add_node(const GraphRef &graph, const NodeRef &node) {
  node->graph = graph.get();
  {
    std::lock_guard<std::mutex> hold(graph_mutex());
    graph->nodes.push_back(node);
  }
  registry().add(node);
}

void drop_graph(const GraphRef &graph) {
  if (!registry().remove<Graph>(graph.get())) return;
  for (const NodeRef &node : graph->nodes) {
    registry().remove<Node>(node.get());
    if (node->child) drop_graph(node->child);
  }
}

}  // namespace lgsim

using namespace lgsim;

namespace {

CUresult find_graph(CUgraph handle, GraphRef &graph) {
  graph = registry().find<Graph>(handle);
  return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult find_node(CUgraphNode handle, NodeRef &node) {
  node = registry().find<Node>(handle);
  return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult find_node(CUgraphNode handle, CUgraphNodeType type, NodeRef &node) {
  CUresult r = find_node(handle, node);
  return r == CUDA_SUCCESS && node->node_type != type ? CUDA_ERROR_INVALID_VALUE : r;
}
CUresult find_exec(CUgraphExec handle, std::shared_ptr<GraphExec> &exec) {
  exec = registry().find<GraphExec>(handle);
  return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
// The node of an executable graph that was made from `handle`.
CUresult find_in_exec(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type, NodeRef &node) {
  std::shared_ptr<GraphExec> exec;
  NodeRef original;
  CUresult r = find_exec(exec_handle, exec);
  if (r == CUDA_SUCCESS) r = find_node(handle, original);
  if (r != CUDA_SUCCESS) return r;
  for (const NodeRef &candidate : exec->graph->nodes) {
    if (candidate->original != original.get()) continue;
    node = candidate;
    return node->node_type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// A copy that shares nothing with its original but what is never changed. Node handles of the copy are given out only if asked.
GraphRef clone(const Graph &from, bool registered) {
  GraphRef to = registered ? new_graph() : std::make_shared<Graph>();
  std::map<const Node *, Node *> copies;
  for (const NodeRef &node : from.nodes) {
    NodeRef copy = std::make_shared<Node>();
    copy->node_type = node->node_type;
    copy->enabled = node->enabled;
    copy->original = node.get();
    copy->launch = node->launch;
    copy->work = node->work;
    copy->work_waits = node->work_waits;
    copy->copy = node->copy;
    copy->fill = node->fill;
    copy->host = node->host;
    copy->operations = node->operations;
    copy->context = node->context;
    copy->event = node->event;
    if (node->child) copy->child = clone(*node->child, registered);
    copies[node.get()] = copy.get();
    copy->graph = to.get();
    to->nodes.push_back(copy);
    if (registered) registry().add(copy);
  }
  for (const NodeRef &node : from.nodes)
    for (const Node *before : node->after) copies[node.get()]->after.push_back(copies[before]);
  return to;
}

// Filling in what a node does. Each is used for adding a node, for changing one, and for changing one of an executable graph.

CUresult set_kernel(Node &node, CUfunction func, CUkernel kern, CUcontext ctx, const CUDA_KERNEL_NODE_PARAMS_v1 &p) {
  // The function field takes functions only; a kernel goes into its own.
  if (func && !registry().find<Function>(func)) return CUDA_ERROR_INVALID_HANDLE;
  if (!func && !kern) return CUDA_ERROR_INVALID_VALUE;
  Context *context = nullptr;
  if (func) {
    context = &registry().find<Function>(func)->module.context;
  } else if (ctx) {
    auto found = registry().find<Context>(ctx);
    if (!found || !found->alive) return CUDA_ERROR_INVALID_CONTEXT;
    context = found.get();
  } else {
    CUresult r = current_context(context);
    if (r != CUDA_SUCCESS) return r;
  }
  Launch launch;
  const void *handle = func ? static_cast<const void *>(func) : static_cast<const void *>(kern);
  CUresult r = prepare_launch(*context, handle, {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}},
                              p.sharedMemBytes, false, p.kernelParams, p.extra, launch);
  if (r == CUDA_SUCCESS) node.launch = launch;
  return r;
}
CUDA_KERNEL_NODE_PARAMS_v1 first_version(const CUDA_KERNEL_NODE_PARAMS_v2 &p) {
  return {p.func, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra};
}
CUresult set_kernel_v1(Node &node, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
  return p ? set_kernel(node, p->func, nullptr, nullptr, *p) : CUDA_ERROR_INVALID_VALUE;
}
CUresult set_kernel_v2(Node &node, const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
  return p ? set_kernel(node, p->func, p->kern, p->ctx, first_version(*p)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult set_copy(Node &node, const CUDA_MEMCPY3D *p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = check_copy(*p);
  if (r != CUDA_SUCCESS) return r;
  node.copy = *p;
  node.work = [copy = *p] { do_copy(copy); };
  return CUDA_SUCCESS;
}
CUresult set_fill(Node &node, const CUDA_MEMSET_NODE_PARAMS *p) {
  if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)) return CUDA_ERROR_INVALID_VALUE;
  if (p->width && p->height && !device_reaches(p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize))
    return CUDA_ERROR_INVALID_VALUE;
  node.fill = *p;
  node.work = [fill = *p] { do_fill(fill); };
  return CUDA_SUCCESS;
}
CUresult set_host(Node &node, const CUDA_HOST_NODE_PARAMS *p) {
  if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
  node.host = *p;
  node.work = [call = *p] { run_host_function(nullptr, [=] { call.fn(call.userData); }); };
  return CUDA_SUCCESS;
}
CUresult set_memops(Node &node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = batch_work(p->count, p->paramArray, node.work);
  if (r != CUDA_SUCCESS) return r;
  node.work_waits = true;
  node.operations.assign(p->paramArray, p->paramArray + p->count);
  node.context = p->ctx;
  return CUDA_SUCCESS;
}
CUresult set_event(Node &node, CUevent event) {
  EventRef found;
  CUresult r = find_event(event, found);
  if (r == CUDA_SUCCESS) node.event = found;
  return r;
}
CUresult set_child(Node &node, CUgraph child) {
  GraphRef graph;
  CUresult r = find_graph(child, graph);
  if (r == CUDA_SUCCESS) node.child = clone(*graph, true);
  return r;
}
CUresult set_any(Node &node, const CUgraphNodeParams *p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(p->type)) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS_v3 &k = p->kernel;
      return set_kernel(node, k.func, k.kern, k.ctx,
                        {k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ, k.sharedMemBytes,
                         k.kernelParams, k.extra});
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return set_copy(node, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2 &m = p->memset;
      const CUDA_MEMSET_NODE_PARAMS fill{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
      return set_fill(node, &fill);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{p->host.fn, p->host.userData};
      return set_host(node, &host);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return set_child(node, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return set_event(node, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return set_event(node, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const CUDA_BATCH_MEM_OP_NODE_PARAMS ops{p->memOp.ctx, p->memOp.count, p->memOp.paramArray, p->memOp.flags};
      return set_memops(node, &ops);
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

template <class Set>
CUresult add(CUgraphNode *result, CUgraph graph_handle, const CUgraphNode *dependencies, size_t count, CUgraphNodeType type, Set set) {
  if (!result || (count && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
  GraphRef graph;
  CUresult r = find_graph(graph_handle, graph);
  if (r != CUDA_SUCCESS) return r;
  NodeRef node = std::make_shared<Node>();
  node->node_type = type;
  for (size_t i = 0; i < count; i++) {
    NodeRef before;
    r = find_node(dependencies[i], before);
    if (r == CUDA_SUCCESS && before->graph != graph.get()) r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) return r;
    node->after.push_back(before.get());
  }
  r = set(*node);
  if (r != CUDA_SUCCESS) return r;
  add_node(graph, node);
  *result = handle_of<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

template <class Set> CUresult change(CUgraphNode handle, CUgraphNodeType type, Set set) {
  NodeRef node;
  CUresult r = find_node(handle, type, node);
  return r == CUDA_SUCCESS ? set(*node) : r;
}
template <class Set> CUresult change_in_exec(CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type, Set set) {
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  NodeRef node;
  CUresult r = find_in_exec(exec, handle, type, node);
  if (r == CUDA_SUCCESS) r = set(*node);
  return r == CUDA_SUCCESS && node->node_type == CU_GRAPH_NODE_TYPE_KERNEL ? set_local_memory_aside(*node->launch.function) : r;
}

// The nodes in an order that respects every edge; empty when there is a cycle.
std::vector<Node *> ordered(const Graph &graph) {
  std::vector<Node *> order;
  std::set<const Node *> placed;
  while (order.size() < graph.nodes.size()) {
    const size_t before = order.size();
    for (const NodeRef &node : graph.nodes) {
      if (placed.count(node.get())) continue;
      if (!std::all_of(node->after.begin(), node->after.end(), [&](Node *n) { return placed.count(n) != 0; })) continue;
      placed.insert(node.get());
      order.push_back(node.get());
    }
    if (order.size() == before) return {};
  }
  return order;
}

// With graph_mutex() held.
bool has_kernel(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const NodeRef &node) {
    return node->node_type == CU_GRAPH_NODE_TYPE_KERNEL || (node->child && has_kernel(*node->child));
  });
}

void add_functions(const Graph &graph, std::vector<FunctionRef> &functions) {
  for (const NodeRef &node : graph.nodes) {
    if (node->node_type == CU_GRAPH_NODE_TYPE_KERNEL) functions.push_back(node->launch.function);
    if (node->child) add_functions(*node->child, functions);
  }
}

// What a graph is to run has the local memory that it needs from here on.
CUresult set_local_memory_aside(const Graph &graph) {
  std::vector<FunctionRef> functions;
  {
    std::lock_guard<std::mutex> hold(graph_mutex());
    add_functions(graph, functions);
  }
  CUresult r = CUDA_SUCCESS;
  for (const FunctionRef &function : functions)
    if (r == CUDA_SUCCESS) r = set_local_memory_aside(*function);
  return r;
}

CUresult instantiate(CUgraphExec *result, CUgraph handle, unsigned long long flags) {
  constexpr unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  NEED_CONTEXT(context);
  if (!result || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  GraphRef graph;
  CUresult r = find_graph(handle, graph);
  if (r != CUDA_SUCCESS) return r;
  r = set_local_memory_aside(*graph);
  if (r != CUDA_SUCCESS) return r;
  Alone hold(context->api_lock);
  auto exec = std::make_shared<GraphExec>();
  {
    std::lock_guard<std::mutex> hold_graphs(graph_mutex());
    if (!graph->nodes.empty() && ordered(*graph).empty()) return CUDA_ERROR_INVALID_VALUE;
    exec->graph = clone(*graph, false);
    if (has_kernel(*graph)) context->launched = true;
  }
  exec->flags = flags;
  registry().add(exec);
  *result = handle_of<CUgraphExec>(exec);
  return CUDA_SUCCESS;
}

CUresult instantiate_with(CUgraphExec *result, CUgraph handle, CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  // A capture was seen not to forbid it where the graph is uploaded, too.
  CUresult r = p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD ? CUDA_SUCCESS : unsafe_call();
  if (r == CUDA_SUCCESS) r = instantiate(result, handle, p->flags);
  p->hErrNode_out = nullptr;
  p->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return r;
}

struct Recorded {
  EventRef event;
  OpRef op;
};

// Appends the steps of a graph; `after` are the steps that its roots follow. Returns, in `ends`, the steps nothing follows.
CUresult make_steps(const Graph &graph, const std::vector<size_t> &after, std::vector<Step> &steps, std::vector<size_t> &ends,
                    std::vector<Recorded> &records) {
  std::map<const Node *, size_t> step_of;
  std::set<size_t> open;
  for (Node *node : ordered(graph)) {
    Step step;
    for (const Node *before : node->after) {
      step.after.push_back(step_of[before]);
      open.erase(step_of[before]);
    }
    if (node->after.empty()) step.after = after;
    if (!node->enabled) {
      step.op = make_op(Op::Kind::marker);
    } else if (node->node_type == CU_GRAPH_NODE_TYPE_KERNEL) {
      if (node->launch.function->unloaded) return CUDA_ERROR_INVALID_HANDLE;
      step.op = launch_op(node->launch);
    } else if (node->node_type == CU_GRAPH_NODE_TYPE_GRAPH) {
      std::vector<size_t> child_ends;
      CUresult r = make_steps(*node->child, step.after, steps, child_ends, records);
      if (r != CUDA_SUCCESS) return r;
      step.op = make_op(Op::Kind::marker);
      step.after.insert(step.after.end(), child_ends.begin(), child_ends.end());
    } else if (node->work) {
      step.op = make_op(node->work_waits ? Op::Kind::wait : Op::Kind::work, node->work);
    } else {
      step.op = make_op(Op::Kind::marker);
      if (node->node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) records.push_back({node->event, step.op});
      if (node->node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
        std::lock_guard<std::mutex> hold(engine_mutex());
        step.also = node->event->recorded;
      }
    }
    step_of[node] = steps.size();
    open.insert(steps.size());
    steps.push_back(std::move(step));
  }
  ends.assign(open.begin(), open.end());
  return CUDA_SUCCESS;
}

CUresult launch(CUgraphExec handle, CUstream stream_handle, bool per_thread) {
  std::shared_ptr<GraphExec> exec;
  StreamRef stream;
  CUresult r = find_exec(handle, exec);
  if (r == CUDA_SUCCESS) r = find_stream(stream_handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  Shared hold(stream->context.api_lock);
  bool captured = false;
  r = capture_instead(stream, [&] {
        auto node = std::make_shared<Node>();
        node->node_type = CU_GRAPH_NODE_TYPE_GRAPH;
        node->child = clone(*exec->graph, true);
        return node;
      }, captured);
  if (r != CUDA_SUCCESS || captured) return r;
  std::vector<Step> steps;
  std::vector<size_t> ends;
  std::vector<Recorded> records;
  r = make_steps(*exec->graph, {}, steps, ends, records);
  if (r != CUDA_SUCCESS) return r;
  OpRef end = make_op(Op::Kind::marker);
  submit_steps(stream, steps, end, exec->last);
  std::lock_guard<std::mutex> hold_engine(engine_mutex());
  for (const Recorded &record : records) record.event->recorded = record.op;
  return outcome();
}

CUresult upload(CUgraphExec handle, CUstream stream_handle, bool per_thread) {
  std::shared_ptr<GraphExec> exec;
  StreamRef stream;
  CUresult r = find_exec(handle, exec);
  if (r == CUDA_SUCCESS) r = find_stream(stream_handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  Shared hold(stream->context.api_lock);
  submit(stream, make_op(Op::Kind::marker));
  return CUDA_SUCCESS;
}

// The pattern of every call that lists something: with a null array it says how many there are.
template <class H> CUresult list(const std::vector<H> &all, H *result, size_t *count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (result) {
    for (size_t i = 0; i < *count; i++) result[i] = i < all.size() ? all[i] : nullptr;
    *count = std::min(*count, all.size());
  } else {
    *count = all.size();
  }
  return CUDA_SUCCESS;
}

std::vector<CUgraphNode> dependents(const NodeRef &node) {
  std::vector<CUgraphNode> found;
  for (const NodeRef &other : node->graph->nodes)
    if (std::find(other->after.begin(), other->after.end(), node.get()) != other->after.end())
      found.push_back(handle_of<CUgraphNode>(other));
  return found;
}
std::vector<CUgraphNode> dependencies_of(const NodeRef &node) {
  std::vector<CUgraphNode> found;
  for (Node *before : node->after) found.push_back(handle_of<CUgraphNode>(before));
  return found;
}

template <class Which> CUresult list_around(CUgraphNode handle, CUgraphNode *result, size_t *count, Which which) {
  NodeRef node;
  CUresult r = find_node(handle, node);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(graph_mutex());
  return list(which(node), result, count);
}

CUresult edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  GraphRef graph;
  CUresult r = find_graph(handle, graph);
  if (r != CUDA_SUCCESS) return r;
  if (!count || (!from != !to)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> hold(graph_mutex());
  std::vector<CUgraphNode> sources, targets;
  for (const NodeRef &node : graph->nodes)
    for (Node *before : node->after) {
      sources.push_back(handle_of<CUgraphNode>(before));
      targets.push_back(handle_of<CUgraphNode>(node));
    }
  size_t room = *count;
  list(sources, from, count);
  return list(targets, to, from ? &room : count);
}

CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, size_t count, bool add_them) {
  GraphRef graph;
  CUresult r = find_graph(handle, graph);
  if (r != CUDA_SUCCESS) return r;
  if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    NodeRef source, target;
    r = find_node(from[i], source);
    if (r == CUDA_SUCCESS) r = find_node(to[i], target);
    if (r == CUDA_SUCCESS && (source->graph != graph.get() || target->graph != graph.get() || source == target))
      r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) return r;
    std::lock_guard<std::mutex> hold(graph_mutex());
    auto at = std::find(target->after.begin(), target->after.end(), source.get());
    if ((at == target->after.end()) != add_them) return CUDA_ERROR_INVALID_VALUE;
    if (add_them)
      target->after.push_back(source.get());
    else
      target->after.erase(at);
  }
  return CUDA_SUCCESS;
}

CUresult update(CUgraphExec exec_handle, CUgraph handle, CUgraphExecUpdateResult &result, CUgraphNode &error_node) {
  result = CU_GRAPH_EXEC_UPDATE_ERROR;
  error_node = nullptr;
  if (!exec_handle) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<GraphExec> exec;
  GraphRef graph;
  CUresult r = find_exec(exec_handle, exec);
  if (r == CUDA_SUCCESS) r = find_graph(handle, graph);
  if (r == CUDA_SUCCESS) r = set_local_memory_aside(*graph);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(graph_mutex());
  GraphRef fresh = clone(*graph, false);
  const auto &now = exec->graph->nodes, &next = fresh->nodes;
  if (now.size() != next.size()) {
    result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  for (size_t i = 0; i < now.size(); i++) {
    error_node = handle_of<CUgraphNode>(graph->nodes[i]);
    if (now[i]->node_type != next[i]->node_type) {
      result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    if (now[i]->after.size() != next[i]->after.size()) {
      result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    // Handles keep meaning the nodes that the graph was first made from.
    next[i]->original = now[i]->original;
    next[i]->enabled = now[i]->enabled;
  }
  exec->graph = fresh;
  error_node = nullptr;
  result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult kernel_parameters(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2 &p) {
  NodeRef node;
  CUresult r = find_node(handle, CU_GRAPH_NODE_TYPE_KERNEL, node);
  if (r != CUDA_SUCCESS) return r;
  Launch &launch = node->launch;
  node->argument_pointers.clear();
  for (size_t offset : launch.function->kernel.offsets) node->argument_pointers.push_back(launch.arguments.data() + offset);
  const lgsim_grid &g = launch.grid;
  p = {};
  p.func = handle_of<CUfunction>(launch.function);
  p.gridDimX = g.grid.x;
  p.gridDimY = g.grid.y;
  p.gridDimZ = g.grid.z;
  p.blockDimX = g.block.x;
  p.blockDimY = g.block.y;
  p.blockDimZ = g.block.z;
  p.sharedMemBytes = launch.shared_bytes;
  p.kernelParams = node->argument_pointers.data();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
  ENTER();
  if (!phGraph || flags) return CUDA_ERROR_INVALID_VALUE;
  *phGraph = handle_of<CUgraph>(new_graph());
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph hGraph) {
  ENTER();
  GraphRef graph;
  CUresult r = find_graph(hGraph, graph);
  if (r == CUDA_SUCCESS) drop_graph(graph);
  return r;
}
CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
  ENTER();
  if (!phGraphClone) return CUDA_ERROR_INVALID_VALUE;
  GraphRef graph;
  CUresult r = find_graph(originalGraph, graph);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(graph_mutex());
  *phGraphClone = handle_of<CUgraph>(clone(*graph, true));
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
  ENTER();
  if (!phNode) return CUDA_ERROR_INVALID_VALUE;
  GraphRef graph;
  NodeRef original;
  CUresult r = find_graph(hClonedGraph, graph);
  if (r == CUDA_SUCCESS) r = find_node(hOriginalNode, original);
  if (r != CUDA_SUCCESS) return r;
  for (const NodeRef &node : graph->nodes) {
    if (node->original != original.get()) continue;
    *phNode = handle_of<CUgraphNode>(node);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

#define ADD_PARAMETERS CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies
#define ADD(type, set) add(phGraphNode, hGraph, dependencies, numDependencies, type, [&](Node &node) { return set; })

CUresult cuGraphAddKernelNode(ADD_PARAMETERS, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_KERNEL, set_kernel_v1(node, nodeParams));
}
CUresult cuGraphAddKernelNode_v2(ADD_PARAMETERS, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_KERNEL, set_kernel_v2(node, nodeParams));
}
CUresult cuGraphAddMemcpyNode(ADD_PARAMETERS, const CUDA_MEMCPY3D *copyParams, CUcontext) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_MEMCPY, set_copy(node, copyParams));
}
CUresult cuGraphAddMemsetNode(ADD_PARAMETERS, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_MEMSET, set_fill(node, memsetParams));
}
CUresult cuGraphAddHostNode(ADD_PARAMETERS, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_HOST, set_host(node, nodeParams));
}
CUresult cuGraphAddChildGraphNode(ADD_PARAMETERS, CUgraph childGraph) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_GRAPH, set_child(node, childGraph));
}
CUresult cuGraphAddEmptyNode(ADD_PARAMETERS) {
  ENTER();
  return add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EMPTY, [](Node &) { return CUDA_SUCCESS; });
}
CUresult cuGraphAddEventRecordNode(ADD_PARAMETERS, CUevent event) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_EVENT_RECORD, set_event(node, event));
}
CUresult cuGraphAddEventWaitNode(ADD_PARAMETERS, CUevent event) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_WAIT_EVENT, set_event(node, event));
}
CUresult cuGraphAddBatchMemOpNode(ADD_PARAMETERS, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  ENTER();
  return ADD(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, set_memops(node, nodeParams));
}
CUresult cuGraphAddNode(ADD_PARAMETERS, CUgraphNodeParams *nodeParams) {
  ENTER();
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return ADD(nodeParams->type, set_any(node, nodeParams));
}
CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *,
                           size_t numDependencies, CUgraphNodeParams *nodeParams) {
  ENTER();
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return ADD(nodeParams->type, set_any(node, nodeParams));
}

#define CHANGE(type, set) change(hNode, type, [&](Node &node) { return set; })
#define CHANGE_IN_EXEC(type, set) change_in_exec(hGraphExec, hNode, type, [&](Node &node) { return set; })

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_KERNEL, set_kernel_v1(node, nodeParams));
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_KERNEL, set_kernel_v2(node, nodeParams));
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_MEMCPY, set_copy(node, nodeParams));
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_MEMSET, set_fill(node, nodeParams));
}
CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_HOST, set_host(node, nodeParams));
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, set_memops(node, nodeParams));
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_EVENT_RECORD, set_event(node, event));
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  ENTER();
  return CHANGE(CU_GRAPH_NODE_TYPE_WAIT_EVENT, set_event(node, event));
}
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  ENTER();
  if (!hNode || !nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(nodeParams->type, set_any(node, nodeParams));
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_KERNEL, set_kernel_v1(node, nodeParams));
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_KERNEL, set_kernel_v2(node, nodeParams));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_MEMCPY, set_copy(node, copyParams));
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                        CUcontext) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_MEMSET, set_fill(node, memsetParams));
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_HOST, set_host(node, nodeParams));
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, set_memops(node, nodeParams));
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_GRAPH, set_child(node, childGraph));
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_EVENT_RECORD, set_event(node, event));
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  ENTER();
  return CHANGE_IN_EXEC(CU_GRAPH_NODE_TYPE_WAIT_EVENT, set_event(node, event));
}
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  ENTER();
  if (!hGraphExec || !nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE_IN_EXEC(nodeParams->type, set_any(node, nodeParams));
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  ENTER();
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 p{};
  CUresult r = kernel_parameters(hNode, p);
  if (r == CUDA_SUCCESS) *nodeParams = first_version(p);
  return r;
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  ENTER();
  return nodeParams ? kernel_parameters(hNode, *nodeParams) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams) {
  ENTER();
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(CU_GRAPH_NODE_TYPE_MEMCPY, (*nodeParams = node.copy, CUDA_SUCCESS));
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  ENTER();
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(CU_GRAPH_NODE_TYPE_MEMSET, (*nodeParams = node.fill, CUDA_SUCCESS));
}
CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams) {
  ENTER();
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(CU_GRAPH_NODE_TYPE_HOST, (*nodeParams = node.host, CUDA_SUCCESS));
}
// The list is the node's own, as the documentation has it.
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  ENTER();
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                (*nodeParams = {node.context, static_cast<unsigned>(node.operations.size()), node.operations.data(), 0}, CUDA_SUCCESS));
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
  ENTER();
  if (!phGraph) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(CU_GRAPH_NODE_TYPE_GRAPH, (*phGraph = handle_of<CUgraph>(node.child), CUDA_SUCCESS));
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  ENTER();
  if (!event_out) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(CU_GRAPH_NODE_TYPE_EVENT_RECORD, (*event_out = handle_of<CUevent>(node.event), CUDA_SUCCESS));
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  ENTER();
  if (!event_out) return CUDA_ERROR_INVALID_VALUE;
  return CHANGE(CU_GRAPH_NODE_TYPE_WAIT_EVENT, (*event_out = handle_of<CUevent>(node.event), CUDA_SUCCESS));
}
CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
  ENTER();
  if (!type) return CUDA_ERROR_INVALID_VALUE;
  NodeRef node;
  CUresult r = find_node(hNode, node);
  if (r == CUDA_SUCCESS) *type = node->node_type;
  return r;
}
CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  ENTER();
  NodeRef node;
  CUresult r = find_node(hNode, node);
  if (r != CUDA_SUCCESS) return r;
  return CHANGE_IN_EXEC(node->node_type, (node.enabled = isEnabled != 0, CUDA_SUCCESS));
}
CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled) {
  ENTER();
  if (!isEnabled) return CUDA_ERROR_INVALID_VALUE;
  NodeRef node;
  CUresult r = find_node(hNode, node);
  if (r != CUDA_SUCCESS) return r;
  return CHANGE_IN_EXEC(node->node_type, (*isEnabled = node.enabled, CUDA_SUCCESS));
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
  ENTER();
  GraphRef graph;
  CUresult r = find_graph(hGraph, graph);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(graph_mutex());
  std::vector<CUgraphNode> all;
  for (const NodeRef &node : graph->nodes) all.push_back(handle_of<CUgraphNode>(node));
  return list(all, nodes, numNodes);
}
CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
  ENTER();
  GraphRef graph;
  CUresult r = find_graph(hGraph, graph);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(graph_mutex());
  std::vector<CUgraphNode> roots;
  for (const NodeRef &node : graph->nodes)
    if (node->after.empty()) roots.push_back(handle_of<CUgraphNode>(node));
  return list(roots, rootNodes, numRootNodes);
}
CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges) {
  ENTER();
  return edges(hGraph, from, to, numEdges);
}
CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData, size_t *numEdges) {
  ENTER();
  if (edgeData && numEdges) memset(edgeData, 0, *numEdges * sizeof *edgeData);
  return edges(hGraph, from, to, numEdges);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies) {
  ENTER();
  return list_around(hNode, dependencies, numDependencies, dependencies_of);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
                                       size_t *numDependencies) {
  ENTER();
  if (edgeData && numDependencies) memset(edgeData, 0, *numDependencies * sizeof *edgeData);
  return list_around(hNode, dependencies, numDependencies, dependencies_of);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes) {
  ENTER();
  return list_around(hNode, dependentNodes, numDependentNodes, dependents);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
                                         size_t *numDependentNodes) {
  ENTER();
  if (edgeData && numDependentNodes) memset(edgeData, 0, *numDependentNodes * sizeof *edgeData);
  return list_around(hNode, dependentNodes, numDependentNodes, dependents);
}
CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies) {
  ENTER();
  return change_edges(hGraph, from, to, numDependencies, true);
}
CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *,
                                   size_t numDependencies) {
  ENTER();
  return change_edges(hGraph, from, to, numDependencies, true);
}
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies) {
  ENTER();
  return change_edges(hGraph, from, to, numDependencies, false);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *,
                                      size_t numDependencies) {
  ENTER();
  return change_edges(hGraph, from, to, numDependencies, false);
}
CUresult cuGraphDestroyNode(CUgraphNode hNode) {
  ENTER();
  NodeRef node = registry().remove<Node>(hNode);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> hold(graph_mutex());
  auto &nodes = node->graph->nodes;
  for (const NodeRef &other : nodes)
    other->after.erase(std::remove(other->after.begin(), other->after.end(), node.get()), other->after.end());
  nodes.erase(std::remove(nodes.begin(), nodes.end(), node), nodes.end());
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *, size_t) {
  ENTER();
  if (phErrorNode) *phErrorNode = nullptr;
  return instantiate(phGraphExec, hGraph, 0);
}
CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *, size_t) {
  ENTER();
  if (phErrorNode) *phErrorNode = nullptr;
  return instantiate(phGraphExec, hGraph, 0);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags) {
  ENTER();
  return instantiate(phGraphExec, hGraph, flags);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
  ENTER();
  return instantiate_with(phGraphExec, hGraph, instantiateParams);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
  ENTER();
  return instantiate_with(phGraphExec, hGraph, instantiateParams);
}
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  ENTER();
  // Without a current context there is no lock to take, and it is destroyed all the same.
  Context *context = nullptr;
  Alone hold;
  if (current_context(context) == CUDA_SUCCESS) hold = Alone(context->api_lock);
  return registry().remove<GraphExec>(hGraphExec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
  ENTER();
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<GraphExec> exec;
  CUresult r = find_exec(hGraphExec, exec);
  if (r == CUDA_SUCCESS) *flags = exec->flags;
  return r;
}
CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out) {
  ENTER();
  CUgraphExecUpdateResult result;
  CUgraphNode node;
  CUresult r = update(hGraphExec, hGraph, result, node);
  if (hErrorNode_out) *hErrorNode_out = node;
  if (updateResult_out) *updateResult_out = result;
  return r;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo) {
  ENTER();
  if (!resultInfo) return CUDA_ERROR_INVALID_VALUE;
  resultInfo->errorFromNode = nullptr;
  return update(hGraphExec, hGraph, resultInfo->result, resultInfo->errorNode);
}
CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  ENTER();
  return launch(hGraphExec, hStream, false);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  ENTER();
  return launch(hGraphExec, hStream, true);
}
CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  ENTER();
  return upload(hGraphExec, hStream, false);
}
CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  ENTER();
  return upload(hGraphExec, hStream, true);
}
