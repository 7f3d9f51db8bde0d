// Stream capture: which streams record instead of running, and which calls a capture forbids.
#pragma once

#include <atomic>
#include "context.hpp"
#include "graph.hpp"

namespace lgsim {

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  // that began it
  Context *context = nullptr;
  StreamRef origin;
  GraphRef graph;
  bool graph_is_callers = false;
  bool invalidated = false;
  // What the next node captured on each stream follows.
  std::map<StreamRef, std::vector<NodeRef>> frontier;
};
using CaptureRef = std::shared_ptr<Capture>;

std::mutex &capture_mutex();

// How many captures are in progress. Looked at before the mutex is taken: nearly always there is none.
extern std::atomic<unsigned> capturing;

// For calls that the documentation names potentially unsafe: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture invalidated,
// when the calling thread's mode forbids them now. Made for those of capture-checks.inc before they begin.
CUresult unsafe_call();
// For calls that reach into every stream of a context: forbidden while anything in it is being captured, in every mode.
CUresult whole_context_call(Context &context);
// For work on the legacy stream, which would have to wait for a capturing blocking stream: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and the
// capture invalidated.
CUresult legacy_call(const StreamRef &stream);

// CUDA_SUCCESS and captured set when the stream records: the node was then added to its graph. `make` makes the node.
CUresult capture_instead(const StreamRef &stream, const std::function<NodeRef()> &make, bool &captured);
bool is_capturing(const StreamRef &stream);
CUresult capture_event_record(const EventRef &event, const StreamRef &stream, bool &captured);
CUresult capture_event_wait(const StreamRef &stream, const EventRef &event, bool &captured);
uint64_t thread_number();

}  // namespace lgsim
