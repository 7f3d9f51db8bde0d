// Graphs: nodes with edges, and their executable form.
#pragma once

#include <array>

#include "context.hpp"
#include "loading.hpp"

namespace lgsim {

struct Graph;
using GraphRef = std::shared_ptr<Graph>;

// A kernel launch with its arguments copied, ready to run any number of times.
struct Launch {
  FunctionRef function;
  lgsim_grid grid;
  unsigned shared_bytes = 0;
  bool cooperative = false;
  std::vector<unsigned char> arguments;
};

struct Node : Object {
  static constexpr Type kType = Type::node;
  Node() : Object(kType) {}
  CUgraphNodeType node_type = CU_GRAPH_NODE_TYPE_EMPTY;
  Graph *graph = nullptr;
  std::vector<Node *> after;  // of the same graph
  bool enabled = true;
  const Node *original = nullptr;  // set in a clone

  Launch launch;                    // kernel
  std::function<void()> work;       // memcpy, memset, host, memory operations
  bool work_waits = false;          // the work polls memory
  CUDA_MEMCPY3D copy{};             // memcpy, as given
  CUDA_MEMSET_NODE_PARAMS fill{};   // memset, as given
  CUDA_HOST_NODE_PARAMS host{};     // host, as given
  std::vector<CUstreamBatchMemOpParams> operations;  // memory operations, as given
  CUcontext context = nullptr;                       // of those
  GraphRef child;                   // child graph
  EventRef event;                   // event record and wait
  std::vector<void *> argument_pointers;  // into launch.arguments, for queries of the parameters
};
using NodeRef = std::shared_ptr<Node>;

struct Graph : Object {
  static constexpr Type kType = Type::graph;
  Graph() : Object(kType) {}
  std::vector<NodeRef> nodes;  // in the order they were added, which respects every edge
};

struct GraphExec : Object {
  static constexpr Type kType = Type::graph_exec;
  GraphExec() : Object(kType) {}
  GraphRef graph;  // a clone: each node's `original` is the node it was made from
  OpRef last;      // guarded by engine_mutex(): a graph does not run beside itself
  unsigned long long flags = 0;
};

// Serialises every change of a graph and every read of one.
std::mutex &graph_mutex();

// In launch.cpp: the op that runs a launch; and the checks every launch has to pass, and the loading it may need, for which it
// takes the context lock itself.
OpRef launch_op(const Launch &launch);
CUresult prepare_launch(Context &context, const void *function, const lgsim_grid &grid, unsigned shared_bytes, bool cooperative,
                        void **parameters, void **extra, Launch &launch);
// Sets as much local memory aside in a function's context as the function needs, for which the context is stopped. Measured: a launch does that, and the
// call that makes a graph with the function executable, or an executable graph run it; not a capture, and not the call that adds a node.
CUresult set_local_memory_aside(const Function &function);
// In memop.cpp: one piece of work that runs a batch of memory operations in order.
CUresult batch_work(unsigned count, const CUstreamBatchMemOpParams *parameters, std::function<void()> &work);
// In graph.cpp.
GraphRef new_graph();
void add_node(const GraphRef &graph, const NodeRef &node);
void drop_graph(const GraphRef &graph);
// In copy.cpp.
CUresult check_copy(const CUDA_MEMCPY3D &copy);
void do_copy(const CUDA_MEMCPY3D &copy);
void do_fill(const CUDA_MEMSET_NODE_PARAMS &fill);

}  // namespace lgsim
