// Capture's protocol: capture_mutex() guards which streams capture, every Capture, and what events remember of one. It is taken
// after a context lock and before the graph and engine mutexes.
#include "capture.hpp"

#include <algorithm>
#include <unordered_set>

#include "entry.hpp"

namespace lgsim {

std::atomic<unsigned> capturing{0};

namespace {

std::vector<CaptureRef> &captures() {
  static auto *const all = new std::vector<CaptureRef>;
  return *all;
}

uint64_t next_capture_id() {
  static std::atomic<uint64_t> id{1};
  return id.fetch_add(1, std::memory_order_relaxed);
}

// The following want capture_mutex() held.

void count_captures() {
  const size_t count = captures().size();
  capturing.store(static_cast<unsigned>(count), std::memory_order_relaxed);
  if (count != 0)
    slow_entry |= kCaptureOpen;
  else
    slow_entry &= static_cast<unsigned char>(~kCaptureOpen);
}

void end(const CaptureRef &capture) {
  for (auto &[stream, nodes] : capture->frontier) stream->capture = nullptr;
  auto &all = captures();
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
  count_captures();
}

bool forbids(const Capture &c, CUstreamCaptureMode mode, uint64_t thread) {
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (c.thread == thread) return c.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool captures_blocking_stream(const Capture &c, const Context &context) {
  return c.context == &context &&
         std::any_of(c.frontier.begin(), c.frontier.end(), [](const auto &captured) { return captured.first->blocking(); });
}

void follow(std::vector<NodeRef> &frontier, const std::vector<NodeRef> &nodes) {
  for (const NodeRef &node : nodes)
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) frontier.push_back(node);
}

// True when everything captured on other streams is followed by what was captured on the origin.
bool is_joined(const Capture &c) {
  std::unordered_set<const Node *> reached;
  std::vector<const Node *> left;
  for (const NodeRef &node : c.frontier.at(c.origin)) left.push_back(node.get());
  while (!left.empty()) {
    const Node *node = left.back();
    left.pop_back();
    if (!reached.insert(node).second) continue;
    for (const Node *before : node->after) left.push_back(before);
  }
  for (const auto &[stream, nodes] : c.frontier)
    for (const NodeRef &node : nodes)
      if (!reached.count(node.get())) return false;
  return true;
}

}  // namespace

std::mutex &capture_mutex() {
  static std::mutex *const m = new std::mutex;
  return *m;
}

CUresult unsafe_call() {
  if (!capturing.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  const CUstreamCaptureMode mode = thread_state().capture_mode;
  const uint64_t thread = thread_number();
  CUresult result = CUDA_SUCCESS;
  std::lock_guard<std::mutex> hold(capture_mutex());
  for (const CaptureRef &c : captures()) {
    if (!forbids(*c, mode, thread)) continue;
    c->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult whole_context_call(Context &context) {
  if (!capturing.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  std::lock_guard<std::mutex> hold(capture_mutex());
  for (const CaptureRef &c : captures()) {
    if (c->context != &context) continue;
    c->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult legacy_call(const StreamRef &stream) {
  if (!stream->legacy || !capturing.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  std::lock_guard<std::mutex> hold(capture_mutex());
  for (const CaptureRef &c : captures()) {
    if (!captures_blocking_stream(*c, stream->context)) continue;
    c->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

bool is_capturing(const StreamRef &stream) {
  if (!capturing.load(std::memory_order_relaxed)) return false;
  std::lock_guard<std::mutex> hold(capture_mutex());
  return stream->capture != nullptr;
}

CUresult capture_instead(const StreamRef &stream, const std::function<NodeRef()> &make, bool &captured) {
  captured = false;
  if (!capturing.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  std::lock_guard<std::mutex> hold(capture_mutex());
  const CaptureRef c = stream->capture;
  if (!c) return CUDA_SUCCESS;
  if (c->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  NodeRef node = make();
  std::vector<NodeRef> &frontier = c->frontier[stream];
  for (const NodeRef &before : frontier) node->after.push_back(before.get());
  add_node(c->graph, node);
  frontier = {node};
  captured = true;
  return CUDA_SUCCESS;
}

CUresult capture_event_record(const EventRef &event, const StreamRef &stream, bool &captured) {
  captured = false;
  std::lock_guard<std::mutex> hold(capture_mutex());
  event->capture = nullptr;
  event->captured_nodes.clear();
  const CaptureRef c = stream->capture;
  if (!c) return CUDA_SUCCESS;
  if (c->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->capture = c;
  event->captured_nodes = c->frontier[stream];
  captured = true;
  return CUDA_SUCCESS;
}

CUresult capture_event_wait(const StreamRef &stream, const EventRef &event, bool &captured) {
  captured = false;
  std::lock_guard<std::mutex> hold(capture_mutex());
  const CaptureRef own = stream->capture, other = event->capture;
  if (!own && !other) return CUDA_SUCCESS;
  captured = true;
  if (!other) {
    // What the stream would follow was never captured.
    std::lock_guard<std::mutex> hold_engine(engine_mutex());
    if (!event->recorded) return CUDA_SUCCESS;
    own->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (own && own != other) {
    own->invalidated = other->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  const auto &all = captures();
  if (std::find(all.begin(), all.end(), other) == all.end()) return CUDA_SUCCESS;  // that capture has ended
  if (other->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->capture = other;
  follow(other->frontier[stream], event->captured_nodes);
  return CUDA_SUCCESS;
}

}  // namespace lgsim

using namespace lgsim;

namespace {

CUresult begin(CUstream handle, bool per_thread, CUstreamCaptureMode mode, const GraphRef &graph, const std::vector<NodeRef> &after) {
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r != CUDA_SUCCESS) return r;
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Alone hold_context(stream->context.api_lock);
  std::lock_guard<std::mutex> hold(capture_mutex());
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  CaptureRef c = std::make_shared<Capture>();
  c->id = next_capture_id();
  c->mode = mode;
  c->thread = thread_number();
  c->context = &stream->context;
  c->origin = stream;
  c->graph = graph ? graph : new_graph();
  c->graph_is_callers = graph != nullptr;
  c->frontier[stream] = after;
  stream->capture = c;
  captures().push_back(c);
  count_captures();
  return CUDA_SUCCESS;
}

CUresult begin_to_graph(CUstream stream, bool per_thread, CUgraph graph_handle, const CUgraphNode *dependencies, size_t count,
                        CUstreamCaptureMode mode) {
  GraphRef graph = registry().find<Graph>(graph_handle);
  if (!graph) return CUDA_ERROR_INVALID_HANDLE;
  if (count && !dependencies) return CUDA_ERROR_INVALID_VALUE;
  std::vector<NodeRef> after;
  for (size_t i = 0; i < count; i++) {
    NodeRef node = registry().find<Node>(dependencies[i]);
    if (!node || node->graph != graph.get()) return CUDA_ERROR_INVALID_VALUE;
    after.push_back(node);
  }
  return begin(stream, per_thread, mode, graph, after);
}

CUresult end_capture(CUstream handle, bool per_thread, CUgraph *result) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(capture_mutex());
  const CaptureRef c = stream->capture;
  if (!c) return CUDA_ERROR_ILLEGAL_STATE;
  if (c->origin != stream) {
    c->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != thread_number()) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  r = c->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : is_joined(*c) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  end(c);
  if (r == CUDA_SUCCESS) {
    *result = handle_of<CUgraph>(c->graph);
  } else {
    *result = nullptr;
    if (!c->graph_is_callers) drop_graph(c->graph);
  }
  return r;
}

CUresult status(CUstream handle, bool per_thread, CUstreamCaptureStatus *result, cuuint64_t *id, CUgraph *graph,
                const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(capture_mutex());
  // A question about the legacy stream has no answer beside a blocking stream that captures, and does that capture no harm.
  if (stream->legacy && std::any_of(captures().begin(), captures().end(),
                                    [&](const CaptureRef &c) { return captures_blocking_stream(*c, stream->context); }))
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const CaptureRef c = stream->capture;
  *result = !c               ? CU_STREAM_CAPTURE_STATUS_NONE
            : c->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!c || c->invalidated) return CUDA_SUCCESS;
  if (id) *id = c->id;
  if (graph) *graph = handle_of<CUgraph>(c->graph);
  if (edges) *edges = nullptr;
  if (dependencies || count) {
    // Good until the thread asks again, which is no longer than the documentation promises.
    static thread_local auto *const nodes = new std::vector<CUgraphNode>;
    nodes->clear();
    for (const NodeRef &node : c->frontier[stream]) nodes->push_back(handle_of<CUgraphNode>(node));
    if (dependencies) *dependencies = nodes->data();
    if (count) *count = nodes->size();
  }
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, bool per_thread, const CUgraphNode *dependencies, size_t count, unsigned flags) {
  if ((count && !dependencies) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(capture_mutex());
  const CaptureRef c = stream->capture;
  if (!c || c->invalidated) return CUDA_ERROR_ILLEGAL_STATE;
  std::vector<NodeRef> nodes;
  for (size_t i = 0; i < count; i++) {
    NodeRef node = registry().find<Node>(dependencies[i]);
    if (!node || node->graph != c->graph.get()) return CUDA_ERROR_INVALID_VALUE;
    nodes.push_back(node);
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) c->frontier[stream].clear();
  follow(c->frontier[stream], nodes);
  return CUDA_SUCCESS;
}

}  // namespace

#define BOTH(name, parameters, body)      \
  CUresult name parameters {              \
    ENTER();                              \
    constexpr bool per_thread = false;    \
    return body;                          \
  }                                       \
  CUresult name##_ptsz parameters {       \
    ENTER();                              \
    constexpr bool per_thread = true;     \
    return body;                          \
  }

BOTH(cuStreamBeginCapture, (CUstream hStream), begin(hStream, per_thread, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {}))
BOTH(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode), begin(hStream, per_thread, mode, nullptr, {}))
BOTH(cuStreamBeginCaptureToGraph,
     (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *, size_t numDependencies,
      CUstreamCaptureMode mode),
     begin_to_graph(hStream, per_thread, hGraph, dependencies, numDependencies, mode))
BOTH(cuStreamEndCapture, (CUstream hStream, CUgraph *phGraph), end_capture(hStream, per_thread, phGraph))
BOTH(cuStreamIsCapturing, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
     status(hStream, per_thread, captureStatus, nullptr, nullptr, nullptr, nullptr, nullptr))
BOTH(cuStreamGetCaptureInfo, (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
     status(hStream, per_thread, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr))
BOTH(cuStreamGetCaptureInfo_v2,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
      const CUgraphNode **dependencies_out, size_t *numDependencies_out),
     status(hStream, per_thread, captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out))
BOTH(cuStreamGetCaptureInfo_v3,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
      const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
     status(hStream, per_thread, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out))
BOTH(cuStreamUpdateCaptureDependencies, (CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags),
     update_dependencies(hStream, per_thread, dependencies, numDependencies, flags))
BOTH(cuStreamUpdateCaptureDependencies_v2,
     (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *, size_t numDependencies, unsigned int flags),
     update_dependencies(hStream, per_thread, dependencies, numDependencies, flags))
#undef BOTH

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  ENTER();
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  if (*mode != CU_STREAM_CAPTURE_MODE_GLOBAL && *mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && *mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_state().capture_mode);
  return CUDA_SUCCESS;
}
