// Contexts, streams and events as objects, and how a call finds the ones it is about.
#pragma once

#include <atomic>
#include <map>
#include <unordered_map>

#include "cuda_api.hpp"
#include "engine.hpp"
#include "registry.hpp"

namespace lgsim {

struct Module;
struct Library;
struct Capture;
struct Node;

struct Stream : Object {
  static constexpr Type kType = Type::stream;
  Stream(Context &c, unsigned f, int p) : Object(kType), context(c), flags(f), priority(p) {}
  Context &context;
  const unsigned flags;
  const int priority;
  bool legacy = false;
  uint64_t id = 0;
  bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }

  // Guarded by engine_mutex().
  OpRef last;
  unsigned depth = 0;
  bool destroyed = false;
  std::map<int, CUstreamAttrValue> attributes;

  // Guarded by capture_mutex().
  std::shared_ptr<Capture> capture;
};

struct Event : Object {
  static constexpr Type kType = Type::event;
  Event(Context *c, unsigned f) : Object(kType), context(c), flags(f) {}
  Context *const context;
  const unsigned flags;
  // Guarded by engine_mutex(). Null until first recorded.
  OpRef recorded;
  // Guarded by capture_mutex(): set when last recorded in a capturing stream.
  std::shared_ptr<Capture> capture;
  std::vector<std::shared_ptr<Node>> captured_nodes;
};
using EventRef = std::shared_ptr<Event>;

struct Context : Object {
  static constexpr Type kType = Type::context;
  Context() : Object(kType) {}

  // The driver's context lock. A call that waits for the whole context holds it while it waits, and the calls that take it
  // queue up behind; the ones that answer all the same do not take it. Ordered before every other mutex.
  std::mutex api_lock;

  bool primary = false;
  std::atomic<bool> alive{true};
  unsigned flags = 0;
  unsigned api_version = 3020;
  uint64_t id = 0;
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;

  // Guarded by api_lock.
  std::map<int, size_t> limits;
  size_t local_bytes = 1024;  // local memory a thread may use before a launch has to grow it
  std::unordered_map<const Library *, std::shared_ptr<Module>> libraries;
  std::vector<std::shared_ptr<Module>> modules;

  // Guarded by engine_mutex().
  std::vector<StreamRef> streams;  // also destroyed ones until they have drained; not the legacy stream
  StreamRef legacy;
  std::unordered_map<uint64_t, StreamRef> per_thread;
  std::list<OpRef> unfinished;
  OpRef barrier;
};

// What a thread remembers. Plain data: nothing is to be destroyed when a thread ends.
struct ThreadState {
  Context *stack[16];
  unsigned depth;
  uint64_t number;  // of this thread; 0 until asked for
  CUstreamCaptureMode capture_mode;
};
ThreadState &thread_state();

// The calling thread's current context: CUDA_ERROR_INVALID_CONTEXT when there is none, CUDA_ERROR_CONTEXT_IS_DESTROYED when it
// was destroyed, CUDA_ERROR_NOT_PERMITTED inside a host function.
CUresult current_context(Context *&context);

// The stream a handle means. per_thread: whether null means the per-thread default stream instead of the legacy one.
CUresult find_stream(CUstream handle, bool per_thread, StreamRef &stream);

CUresult find_event(CUevent handle, EventRef &event);

StreamRef make_stream(Context &context, unsigned flags, int priority);
void each_context(const std::function<void(Context &)> &f);

// Waits, with the context lock held, until all that is in flight in the context now has ended.
void wait_for_context(Context &context);

// True for the one device there is.
inline bool is_device(CUdevice device) { return device == 0; }

}  // namespace lgsim

// Declares the calling thread's context, or answers the error there is instead.
#define NEED_CONTEXT(context)                                 \
  Context *context = nullptr;                                 \
  do {                                                        \
    CUresult found_ = current_context(context);               \
    if (found_ != CUDA_SUCCESS) return found_;                \
  } while (0)
