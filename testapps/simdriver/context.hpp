// Contexts, streams and events as objects, and how a call finds the ones it is about.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <shared_mutex>
#include <thread>
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
  uint64_t place = 0;  // of its hardware queue: the next one of the context's each time that the stream begins to be busy
  bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }

  // Guarded by engine_mutex().
  OpRef last;
  unsigned depth = 0;   // ops that have not completed
  unsigned queued = 0;  // those of them that take room in the queue
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

// The stack limit of a context that has just come, in bytes a thread.
constexpr size_t kLocalBytesAtStart = 1024;

// One thread that holds it alone, or several that share it. The C library's lock prefers those that share it: two threads that submit without a pause
// keep a third from it for good. So they pause for a moment now and then, while another thread wants it alone; not for cuModuleLoad*.
class ContextLock {
 public:
  void lock() {
    const HostWait wait(SeenThread::For::context_lock, this);
    for (;;) {
      ++wanted_;
      const bool held = lock_.try_lock_for(kPause);
      --wanted_;
      if (held || lock_.try_lock_for(50 * kPause)) break;
    }
    context_lock_taken(this);
  }
  void lock_to_load() {
    const HostWait wait(SeenThread::For::context_lock, this);
    lock_.lock();
    context_lock_taken(this);
  }
  void unlock() {
    context_lock_left(this);
    lock_.unlock();
  }
  void lock_shared() {
    for (int n = 0; n < 10 && wanted_ > 0; ++n) std::this_thread::sleep_for(kPause / 10);
    const HostWait wait(SeenThread::For::context_lock, this);
    lock_.lock_shared();
    context_lock_taken(this);
  }
  void unlock_shared() {
    context_lock_left(this);
    lock_.unlock_shared();
  }

 private:
  static constexpr std::chrono::microseconds kPause{1000};
  std::shared_timed_mutex lock_;
  std::atomic<int> wanted_{0};
};

struct Context : Object {
  static constexpr Type kType = Type::context;
  Context() : Object(kType) {}

  // The driver's context lock, as it was seen from outside. Submissions share it, and keep it while they wait for room in a queue
  // or for a pageable copy; calls that load, allocate, create, destroy or change limits hold it alone, as do copies that are
  // not asynchronous. A thread that waits to hold it alone does not keep others from sharing it. Ordered before every other mutex.
  ContextLock api_lock;

  bool primary = false;
  std::atomic<bool> alive{true};
  unsigned flags = 0;
  unsigned api_version = 3020;
  uint64_t id = 0;
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;

  std::atomic<size_t> local_bytes{kLocalBytesAtStart};  // local memory a thread may use before a launch has to grow it: the stack limit

  std::atomic<bool> may_print{false};       // a module with a kernel that prints was loaded
  std::atomic<bool> prints{false};          // a kernel that prints was launched: the buffer's size is settled

  std::atomic<bool> launched{false};  // the first kernel was launched, or an executable graph made that has one

  // Held while a host function or a stream callback runs: there is one at a time. A leaf.
  std::mutex host_functions;

  // Guarded by api_lock.
  std::map<int, size_t> limits;
  std::vector<std::shared_ptr<Module>> modules;

  // Guarded by libraries_mutex, a leaf: what is there already is found while another thread holds the context lock.
  std::mutex libraries_mutex;
  std::unordered_map<const Library *, std::shared_ptr<Module>> libraries;

  // Guarded by engine_mutex().
  std::vector<StreamRef> streams;  // also destroyed ones until they have drained; not the legacy stream
  StreamRef legacy;
  std::unordered_map<uint64_t, StreamRef> per_thread;
  std::list<OpRef> unfinished;
  std::vector<OpRef> queues;  // of each hardware queue the newest kernel
  uint64_t places = 0;
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
// What cuDevicePrimaryCtxRetain does, also for the runtime's way to it.
CUresult retain_primary(CUcontext *result, CUdevice device);

using Alone = std::unique_lock<ContextLock>;   // holding the context lock as the only one
using Shared = std::shared_lock<ContextLock>;  // holding it beside others

// Waits, with the context lock held alone, until all that is in flight in the context now has ended. What is submitted without
// the lock meanwhile is carried out by the first and held back by the second.
void wait_for_context(Context &context);
void stop_context(Context &context);

// What the driver makes of a stack limit that a program sets: a multiple of 16 bytes.
size_t as_stack_limit(size_t bytes);
// Makes the stack limit, and the local memory that is set aside, as large as this, with the context lock held alone.
void set_local_memory(Context &context, size_t bytes);
// What all contexts have set aside beyond what each has at the start, in bytes of the device's memory.
uint64_t local_memory_bytes();

// What a call answers that has waited for work: the error that has taken the work away, if one has.
inline CUresult outcome() { return error_of_lost_work(); }

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
