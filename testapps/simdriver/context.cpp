// Contexts: primary and created ones, the thread's stack of them, their limits; and what a call needs to find its context.
#include "context.hpp"

#include <unistd.h>

#include "capture.hpp"
#include "coredump.hpp"
#include "entry.hpp"
#include "loading.hpp"
#include "memory.hpp"
#include "settings.hpp"

namespace lgsim {

Registry &registry() {
  static Registry *const r = new Registry;
  return *r;
}

ThreadState &thread_state() {
  static thread_local ThreadState state{};
  return state;
}

uint64_t thread_number() {
  static std::atomic<uint64_t> next{1};
  ThreadState &state = thread_state();
  if (!state.number) state.number = next.fetch_add(1, std::memory_order_relaxed);
  return state.number;
}

namespace {

struct Primary {
  // Held while the context comes or ends, each of which is done before the next begins: also while the end waits for what is in flight. Taken first.
  std::mutex lifetime;
  // Guards what follows, and is held for a moment.
  std::mutex mutex;
  std::shared_ptr<Context> context;
  unsigned retained = 0;
  unsigned flags = 0;
};
Primary &primary() {
  static Primary *const p = new Primary;
  return *p;
}

std::mutex &contexts_mutex() {
  static std::mutex *const m = new std::mutex;
  return *m;
}
// Every context ever made: streams and ops point at theirs without owning it.
std::vector<std::shared_ptr<Context>> &contexts() {
  static auto *const c = new std::vector<std::shared_ptr<Context>>;
  return *c;
}

uint64_t next_id() {
  static std::atomic<uint64_t> id{1};
  return id.fetch_add(1, std::memory_order_relaxed);
}

uint64_t next_context_id() {
  static std::atomic<uint64_t> id{1};
  return id.fetch_add(1, std::memory_order_relaxed);
}

void come_alive(Context &context) {
  context.limits = {{CU_LIMIT_STACK_SIZE, kLocalBytesAtStart},
                    {CU_LIMIT_PRINTF_FIFO_SIZE, 7 << 20},
                    {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
                    {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
                    {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
                    {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128},
                    {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};
  context.local_bytes = kLocalBytesAtStart;
  context.prints = false;
  context.launched = false;
  context.may_print = false;
  context.id = next_context_id();
  StreamRef legacy = std::make_shared<Stream>(context, CU_STREAM_DEFAULT, 0);
  legacy->legacy = true;
  legacy->id = next_id();
  {
    std::lock_guard<std::mutex> hold(engine_mutex());
    context.legacy = legacy;
  }
  context.alive = true;
}

CUresult new_context(std::shared_ptr<Context> &context, unsigned flags, bool is_primary) {
  context = std::make_shared<Context>();
  context->flags = flags;
  context->primary = is_primary;
  come_alive(*context);
  registry().add(context);
  {
    std::lock_guard<std::mutex> hold(contexts_mutex());
    contexts().push_back(context);
  }
  a_context_is_there();
  return CUDA_SUCCESS;
}

void load_eagerly(Context &context) {
  if (!eager_loading()) return;
  Alone hold(context.api_lock);
  load_all_libraries(context);
}

// Ends all that a context holds once what is in flight in it has ended.
void tear_down(Context &context) {
  Alone hold(context.api_lock);
  // The device is waited for, not only this context.
  each_context([](Context &other) { wait_for_context(other); });
  context.alive = false;
  unload_everything(context);
  if (work_is_lost()) return;
  std::vector<StreamRef> streams;
  {
    std::lock_guard<std::mutex> hold_engine(engine_mutex());
    streams.swap(context.streams);
    context.per_thread.clear();
  }
  for (const StreamRef &stream : streams) registry().remove<Stream>(stream.get());
  free_context_memory(context);
}

CUresult push(Context *context) {
  ThreadState &state = thread_state();
  if (state.depth == sizeof state.stack / sizeof *state.stack) return CUDA_ERROR_OUT_OF_MEMORY;
  state.stack[state.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult find_context(CUcontext handle, std::shared_ptr<Context> &context) {
  if (!handle) return CUDA_ERROR_INVALID_CONTEXT;
  context = registry().find<Context>(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult create(CUcontext *result, unsigned flags, CUdevice device, unsigned api_version) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  CUresult r = new_context(context, flags, false);
  if (r != CUDA_SUCCESS) return r;
  context->api_version = api_version;
  load_eagerly(*context);
  r = push(context.get());
  if (r == CUDA_SUCCESS) *result = handle_of<CUcontext>(context);
  return r;
}

CUresult destroy(CUcontext handle) {
  std::shared_ptr<Context> context;
  CUresult r = find_context(handle, context);
  if (r != CUDA_SUCCESS) return r;
  if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  tear_down(*context);
  registry().remove<Context>(context.get());
  ThreadState &state = thread_state();
  if (state.depth && state.stack[state.depth - 1] == context.get()) state.depth--;
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext *result) {
  ThreadState &state = thread_state();
  if (!state.depth) return CUDA_ERROR_INVALID_CONTEXT;
  Context *context = state.stack[--state.depth];
  if (result) *result = handle_of<CUcontext>(context);
  return CUDA_SUCCESS;
}

CUresult push_handle(CUcontext handle) {
  std::shared_ptr<Context> context;
  CUresult r = find_context(handle, context);
  return r == CUDA_SUCCESS ? push(context.get()) : r;
}

CUresult retain(CUcontext *result, CUdevice device) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Primary &p = primary();
  std::lock_guard<std::mutex> hold_lifetime(p.lifetime);
  std::lock_guard<std::mutex> hold(p.mutex);
  if (!p.context) {
    CUresult r = new_context(p.context, p.flags, true);
    if (r != CUDA_SUCCESS) return r;
    load_eagerly(*p.context);
  } else if (!p.context->alive) {
    come_alive(*p.context);
    load_eagerly(*p.context);
  }
  p.context->flags = p.flags;
  p.retained++;
  *result = handle_of<CUcontext>(p.context);
  return CUDA_SUCCESS;
}

CUresult release(CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Primary &p = primary();
  std::lock_guard<std::mutex> hold_lifetime(p.lifetime);
  std::shared_ptr<Context> to_end;
  {
    std::lock_guard<std::mutex> hold(p.mutex);
    if (!p.retained) return CUDA_ERROR_INVALID_CONTEXT;
    if (--p.retained == 0) to_end = p.context;
  }
  if (to_end) tear_down(*to_end);
  return CUDA_SUCCESS;
}

CUresult reset(CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Primary &p = primary();
  std::lock_guard<std::mutex> hold_lifetime(p.lifetime);
  std::shared_ptr<Context> to_end;
  {
    std::lock_guard<std::mutex> hold(p.mutex);
    if (p.context && p.context->alive) to_end = p.context;
  }
  if (to_end) {
    tear_down(*to_end);
    come_alive(*to_end);  // the references that programs hold stay good
  }
  return CUDA_SUCCESS;
}

CUresult set_primary_flags(CUdevice device, unsigned flags) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> hold(primary().mutex);
  primary().flags = flags;
  return CUDA_SUCCESS;
}

CUresult synchronize(Context &context) {
  CUresult r = whole_context_call(context);
  if (r != CUDA_SUCCESS) return r;
  // Without the context lock: other threads submit meanwhile.
  wait_until_done(mark_context(context));
  return outcome();
}

}  // namespace

// A real driver's release of a context whose work was lost under a kernel that does not end was not seen to return.
static void never_after_a_loss() {
  while (work_is_lost()) pause();
}

static CUresult release_unless_lost(CUdevice device) {
  never_after_a_loss();
  const CUresult result = release(device);
  // It may have been lost while its end was waited for.
  never_after_a_loss();
  return result;
}

CUresult current_context(Context *&context) {
  ThreadState &state = thread_state();
  if (!state.depth) {
    if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  context = state.stack[state.depth - 1];
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return context->alive.load(std::memory_order_relaxed) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

StreamRef make_stream(Context &context, unsigned flags, int priority) {
  StreamRef stream = std::make_shared<Stream>(context, flags, priority);
  stream->id = next_id();
  std::lock_guard<std::mutex> hold(engine_mutex());
  context.streams.push_back(stream);
  return stream;
}

CUresult find_stream(CUstream handle, bool per_thread, StreamRef &stream) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    stream = registry().find<Stream>(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    return stream->context.alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  Context *context;
  CUresult r = current_context(context);
  if (r != CUDA_SUCCESS) return r;
  if (handle == CU_STREAM_LEGACY || (!handle && !per_thread)) {
    stream = context->legacy;
    return CUDA_SUCCESS;
  }
  const uint64_t thread = thread_number();
  {
    std::lock_guard<std::mutex> hold(engine_mutex());
    auto it = context->per_thread.find(thread);
    if (it != context->per_thread.end()) {
      stream = it->second;
      return CUDA_SUCCESS;
    }
  }
  stream = make_stream(*context, CU_STREAM_DEFAULT, 0);
  std::lock_guard<std::mutex> hold(engine_mutex());
  context->per_thread[thread] = stream;
  return CUDA_SUCCESS;
}

CUresult find_event(CUevent handle, EventRef &event) {
  event = registry().find<Event>(handle);
  return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void each_context(const std::function<void(Context &)> &f) {
  std::vector<std::shared_ptr<Context>> all;
  {
    std::lock_guard<std::mutex> hold(contexts_mutex());
    all = contexts();
  }
  for (const auto &context : all)
    if (context->alive) f(*context);
}

CUresult retain_primary(CUcontext *result, CUdevice device) { return retain(result, device); }

void wait_for_context(Context &context) { wait_until_done(mark_context(context)); }
void stop_context(Context &context) { wait_until_done(raise_barrier(context)); }

size_t as_stack_limit(size_t bytes) { return (bytes + 15) / 16 * 16; }

void set_local_memory(Context &context, size_t bytes) {
  stop_context(context);
  context.local_bytes = as_stack_limit(bytes);
  context.limits[CU_LIMIT_STACK_SIZE] = context.local_bytes;
}

uint64_t local_memory_bytes() {
  constexpr uint64_t kPage = 2 << 20;
  uint64_t pages = 0;
  each_context([&](Context &context) {
    const size_t more = std::max<size_t>(context.local_bytes, kLocalBytesAtStart) - kLocalBytesAtStart;
    pages += (more * kMultiprocessors * kThreadsPerMultiprocessor + kPage - 1) / kPage;
  });
  return pages * kPage;
}

}  // namespace lgsim

using namespace lgsim;

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  ENTER();
  return create(pctx, flags, dev, 3010);
}
CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  ENTER();
  return create(pctx, flags, dev, 3020);
}
CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *, int, unsigned int flags, CUdevice dev) {
  ENTER();
  return create(pctx, flags, dev, 3020);
}
CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *, unsigned int flags, CUdevice dev) {
  ENTER();
  return create(pctx, flags, dev, 3020);
}
CUresult cuCtxDestroy(CUcontext ctx) {
  ENTER();
  return destroy(ctx);
}
CUresult cuCtxDestroy_v2(CUcontext ctx) {
  ENTER();
  return destroy(ctx);
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
  ENTER();
  return push_handle(ctx);
}
CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  ENTER();
  return push_handle(ctx);
}
CUresult cuCtxPopCurrent(CUcontext *pctx) {
  ENTER();
  return pop(pctx);
}
CUresult cuCtxPopCurrent_v2(CUcontext *pctx) {
  ENTER();
  return pop(pctx);
}
CUresult cuCtxSetCurrent(CUcontext ctx) {
  ENTER();
  ThreadState &state = thread_state();
  if (!ctx) {
    if (state.depth) state.depth--;
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Context> context;
  CUresult r = find_context(ctx, context);
  if (r != CUDA_SUCCESS) return r;
  if (!state.depth) return push(context.get());
  state.stack[state.depth - 1] = context.get();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *pctx) {
  ENTER();
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  ThreadState &state = thread_state();
  *pctx = state.depth ? handle_of<CUcontext>(state.stack[state.depth - 1]) : nullptr;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  ENTER();
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  ENTER();
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (ctx) {
    std::shared_ptr<Context> context;
    CUresult r = find_context(ctx, context);
    if (r != CUDA_SUCCESS) return r;
  } else {
    NEED_CONTEXT(context);
  }
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetFlags(unsigned int *flags) {
  ENTER();
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  *flags = context->flags;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetFlags(unsigned int flags) {
  ENTER();
  if (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  if (flags & CU_CTX_SYNC_MEMOPS) {
    CUresult r = unsafe_call();
    if (r != CUDA_SUCCESS) return r;
  }
  Alone hold(context->api_lock);
  if (flags & CU_CTX_SYNC_MEMOPS) wait_for_context(*context);
  context->flags = flags;
  return outcome();
}
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
  ENTER();
  if (!ctxId) return CUDA_ERROR_INVALID_VALUE;
  if (ctx) {
    std::shared_ptr<Context> context;
    CUresult r = find_context(ctx, context);
    if (r == CUDA_SUCCESS) *ctxId = context->id;
    return r;
  }
  NEED_CONTEXT(context);
  *ctxId = context->id;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) {
  ENTER();
  NEED_CONTEXT(context);
  return synchronize(*context);
}
CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  ENTER();
  if (ctx) {
    std::shared_ptr<Context> context;
    CUresult r = find_context(ctx, context);
    return r == CUDA_SUCCESS ? synchronize(*context) : r;
  }
  NEED_CONTEXT(context);
  return synchronize(*context);
}
CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
  ENTER();
  if (!pvalue) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  auto it = context->limits.find(limit);
  if (it == context->limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *pvalue = it->second;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER();
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  auto it = context->limits.find(limit);
  if (it == context->limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE && context->prints) return CUDA_ERROR_INVALID_VALUE;
  if (limit != CU_LIMIT_STACK_SIZE)
    it->second = value;
  else if (as_stack_limit(value) != it->second)
    set_local_memory(*context, value);
  return outcome();
}
CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
  ENTER();
  if (!pconfig) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  *pconfig = context->cache_config;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  ENTER();
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  context->cache_config = config;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
  ENTER();
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  if (ctx) {
    std::shared_ptr<Context> context;
    CUresult r = find_context(ctx, context);
    if (r == CUDA_SUCCESS) *version = context->api_version;
    return r;
  }
  NEED_CONTEXT(context);
  *version = context->api_version;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER();
  NEED_CONTEXT(context);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}
CUresult cuCtxResetPersistingL2Cache(void) {
  ENTER();
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  raise_barrier(*context);
  return CUDA_SUCCESS;
}
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  ENTER();
  std::shared_ptr<Context> context;
  EventRef event;
  CUresult r = find_context(hCtx, context);
  if (r == CUDA_SUCCESS) r = find_event(hEvent, event);
  if (r == CUDA_SUCCESS) r = whole_context_call(*context);
  if (r != CUDA_SUCCESS) return r;
  if (event->context != context.get()) return CUDA_ERROR_INVALID_HANDLE;
  Shared hold(context->api_lock);
  OpRef marker = mark_context(*context);
  std::lock_guard<std::mutex> hold_engine(engine_mutex());
  event->recorded = marker;
  return CUDA_SUCCESS;
}
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  ENTER();
  std::shared_ptr<Context> context;
  EventRef event;
  CUresult r = find_context(hCtx, context);
  if (r == CUDA_SUCCESS) r = find_event(hEvent, event);
  if (r == CUDA_SUCCESS) r = whole_context_call(*context);
  if (r != CUDA_SUCCESS) return r;
  std::vector<StreamRef> streams;
  OpRef recorded;
  {
    std::lock_guard<std::mutex> hold_engine(engine_mutex());
    streams = context->streams;
    streams.push_back(context->legacy);
    recorded = event->recorded;
  }
  // Without the context lock: it answered while another thread held it.
  if (recorded)
    for (const StreamRef &stream : streams) submit(stream, make_op(Op::Kind::marker), {recorded});
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  ENTER();
  return retain(pctx, dev);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  ENTER();
  return release_unless_lost(dev);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  ENTER();
  return release_unless_lost(dev);
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  ENTER();
  return reset(dev);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  ENTER();
  return reset(dev);
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  ENTER();
  return set_primary_flags(dev, flags);
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  ENTER();
  return set_primary_flags(dev, flags);
}
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
  ENTER();
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard<std::mutex> hold(primary().mutex);
  *flags = primary().flags;
  *active = primary().context && primary().context->alive;
  return CUDA_SUCCESS;
}
