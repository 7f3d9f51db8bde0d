// Launches: kernels in all forms, and host functions.
//
// A launch that has to load its function, or to grow local memory, first holds the context lock alone for that: there the lazy
// loads happen. To be submitted it shares the lock, also while it waits for room in a full queue. Host functions hold it alone.
#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "capture.hpp"
#include "coredump.hpp"
#include "entry.hpp"
#include "graph.hpp"
#include "settings.hpp"

namespace lgsim {
namespace {

uint64_t volume(const lgsim_dim3 &d) { return static_cast<uint64_t>(d.x) * d.y * d.z; }

// Points at each argument inside the copied arguments; few kernels have more than the array holds.
struct ArgumentPointers {
  void *few[16];
  std::vector<void *> many;
  void **of(const KernelInfo &kernel, unsigned char *arguments) {
    void **pointers = few;
    if (kernel.offsets.size() > sizeof few / sizeof *few) {
      many.resize(kernel.offsets.size());
      pointers = many.data();
    }
    for (size_t i = 0; i < kernel.offsets.size(); i++) pointers[i] = arguments + kernel.offsets[i];
    return pointers;
  }
};

void run_grid(const Launch &launch) {
  const KernelInfo &kernel = launch.function->kernel;
  std::vector<unsigned char> arguments = launch.arguments;
  ArgumentPointers pointers;
  void **parameters = pointers.of(kernel, arguments.data());
  const size_t blocks = volume(launch.grid.grid);
  if (!kernel.attributes.blocks_together) {
    kernel.run(launch.grid, 0, blocks, parameters);
    return;
  }
  std::vector<std::thread> others;
  for (size_t block = 1; block < blocks; block++)
    others.emplace_back([&, block] { kernel.run(launch.grid, block, 1, parameters); });
  kernel.run(launch.grid, 0, 1, parameters);
  for (std::thread &other : others) other.join();
}

CUresult copy_arguments(const KernelInfo &kernel, void **parameters, void **extra, std::vector<unsigned char> &arguments) {
  arguments.assign(kernel.parameter_bytes, 0);
  if (kernel.sizes.empty()) return CUDA_SUCCESS;
  if (parameters && extra) return CUDA_ERROR_INVALID_VALUE;
  if (parameters) {
    for (size_t i = 0; i < kernel.sizes.size(); i++) {
      if (!parameters[i]) return CUDA_ERROR_INVALID_VALUE;
      memcpy(arguments.data() + kernel.offsets[i], parameters[i], kernel.sizes[i]);
    }
    return CUDA_SUCCESS;
  }
  if (!extra) return CUDA_ERROR_INVALID_VALUE;
  const void *buffer = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<size_t *>(extra[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!buffer || bytes < kernel.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  memcpy(arguments.data(), buffer, kernel.parameter_bytes);
  return CUDA_SUCCESS;
}

CUresult check_grid(const Function &function, const lgsim_grid &grid, unsigned shared_bytes, bool cooperative) {
  const uint64_t blocks = volume(grid.grid), threads = volume(grid.block);
  if (!blocks || !threads) return CUDA_ERROR_INVALID_VALUE;
  if (threads > function.kernel.attributes.max_threads || grid.block.z > 64 || grid.grid.y > 65535 || grid.grid.z > 65535)
    return CUDA_ERROR_INVALID_VALUE;
  if (shared_bytes + function.kernel.attributes.static_shared_bytes > static_cast<unsigned>(function.max_dynamic_shared))
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t per_multiprocessor =
      std::min(kBlocksPerMultiprocessor, kThreadsPerMultiprocessor / ((threads + 31) / 32 * 32));
  if (cooperative && blocks > per_multiprocessor * kMultiprocessors) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

// Free running, a thread that launches what it has launched before goes this way: functions and streams that it has looked up are
// known to be good for as long as no handle has ceased to be one. It takes no lock, so that what several threads are seen to wait
// for is not this driver.
using Body = void (*)(const lgsim_grid &, size_t, size_t, void **);
struct KnownFunction {
  const void *handle = nullptr;
  unsigned long generation = 0;
  Body run = nullptr;
  Context *context = nullptr;
};
struct KnownStream {
  const void *handle = nullptr;
  unsigned long generation = 0;
  Context *context = nullptr;
};
bool is_default(CUstream handle) { return !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD; }

// Handles by address, each in one of a few places; when all of them are taken, the newest handle takes the first.
template <class Entry, unsigned bits> class Table {
 public:
  const Entry *find(const void *handle, unsigned long generation) const {
    const Entry *const first = entries_ + place_of(handle);
    for (const Entry *entry = first; entry < first + kPlaces; entry++)
      if (entry->handle == handle && entry->generation == generation) return entry;
    return nullptr;
  }
  void put(const Entry &newest) {
    Entry *const first = entries_ + place_of(newest.handle);
    Entry *entry = first;
    while (entry < first + kPlaces && entry->generation == newest.generation && entry->handle != newest.handle) entry++;
    *(entry < first + kPlaces ? entry : first) = newest;
  }

 private:
  static constexpr size_t kPlaces = 8;
  static size_t place_of(const void *handle) {
    return static_cast<size_t>(reinterpret_cast<uintptr_t>(handle) * 0x9e3779b97f4a7c15ull >> (64 - bits));
  }
  Entry entries_[(size_t{1} << bits) + kPlaces];
};

struct Known {
  Table<KnownFunction, 15> functions;
  Table<KnownStream, 10> streams;
};

// Null until the thread has launched something.
std::unique_ptr<Known> &known() {
  static thread_local std::unique_ptr<Known> tables;
  return tables;
}

void remember(const void *function, CUstream stream, unsigned long generation, Body run, Context &context) {
  if (!known()) known().reset(new Known);
  known()->functions.put({function, generation, run, &context});
  if (!is_default(stream)) known()->streams.put({stream, generation, &context});
}

// The body of a kernel that can be run at once, or null.
Body runnable(const void *function, CUstream stream) {
  const Known *tables = known().get();
  if (!tables || capturing.load(std::memory_order_relaxed)) return nullptr;
  const unsigned long generation = registry().generation();
  const Context *context = nullptr;
  if (is_default(stream)) {
    const ThreadState &state = thread_state();
    if (state.depth) context = state.stack[state.depth - 1];
  } else if (const KnownStream *found = tables->streams.find(stream, generation)) {
    context = found->context;
  }
  const KnownFunction *found = context ? tables->functions.find(function, generation) : nullptr;
  return found && found->context == context ? found->run : nullptr;
}

// Two launches put a barrier behind what is in flight, though their functions were loaded long before: the first of a context one of
// whose modules prints, whatever is launched, and the first of a kernel that prints.
void make_ready_to_print(Context &context, const Function &function) {
  const bool first = !context.launched.exchange(true) && context.may_print;
  const bool first_to_print = function.kernel.attributes.uses_printf && !context.prints.exchange(true);
  if (first || first_to_print) raise_barrier(context);
}

CUresult launch_kernel_at_once(CUfunction f, const lgsim_grid &grid, unsigned shared_bytes, CUstream handle, bool per_thread,
                       void **parameters, void **extra, bool cooperative) {
  const bool free_running = settings().free_running;
  if (free_running && parameters && !extra && !shared_bytes && !cooperative) {
    const uint64_t threads = volume(grid.block);
    const Body run = runnable(f, handle);
    if (run && threads && threads <= 1024 && volume(grid.grid)) {
      run(grid, 0, volume(grid.grid), parameters);
      return CUDA_SUCCESS;
    }
  }

  // Before anything is looked up: what ceases to be a handle meanwhile must not be remembered as one.
  const unsigned long generation = registry().generation();
  // The stream names the context; none has to be current for a stream that is not a default one.
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  Launch launch;
  r = prepare_launch(stream->context, f, grid, shared_bytes, cooperative, parameters, extra, launch);
  if (r == CUDA_SUCCESS && !is_capturing(stream)) r = set_local_memory_aside(*launch.function);
  if (r != CUDA_SUCCESS) return r;
  Shared hold(stream->context.api_lock);
  bool captured = false;
  r = capture_instead(stream, [&] {
        auto node = std::make_shared<Node>();
        node->node_type = CU_GRAPH_NODE_TYPE_KERNEL;
        node->launch = launch;
        return node;
      }, captured);
  if (r != CUDA_SUCCESS || captured) return r;
  if (free_running && !launch.function->kernel.attributes.blocks_together) remember(f, handle, generation, launch.function->kernel.run, stream->context);
  make_ready_to_print(stream->context, *launch.function);
  // Measured: a launch that waits in a full queue while all work is lost succeeds, and the next call gives the error.
  return submit(stream, launch_op(launch)) ? outcome() : CUDA_SUCCESS;
}

// With CUDA_LAUNCH_BLOCKING a launch returns when its kernel has ended, for which its thread looks again and again; other threads' calls go on meanwhile.
CUresult launch_kernel(CUfunction f, const lgsim_grid &grid, unsigned shared_bytes, CUstream handle, bool per_thread, void **parameters,
                       void **extra, bool cooperative) {
  const CUresult result = launch_kernel_at_once(f, grid, shared_bytes, handle, per_thread, parameters, extra, cooperative);
  StreamRef stream;
  if (!launches_block() || result != CUDA_SUCCESS || find_stream(handle, per_thread, stream) != CUDA_SUCCESS) return result;
  if (is_capturing(stream)) return result;
  look_until_done(mark_stream(stream));
  return outcome();
}

CUresult launch_config(const CUlaunchConfig *config, CUfunction f, void **parameters, void **extra, bool per_thread) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  // Measured: only then are the attributes looked at, and not where there are very many.
  NEED_CONTEXT(context);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  bool cooperative = false;
  if (config->numAttrs > 1024 || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) cooperative = config->attrs[i].value.cooperative != 0;
  lgsim_grid grid{{config->gridDimX, config->gridDimY, config->gridDimZ}, {config->blockDimX, config->blockDimY, config->blockDimZ}};
  return launch_kernel(f, grid, config->sharedMemBytes, config->hStream, per_thread, parameters, extra, cooperative);
}

CUresult launch_host(CUstream handle, bool per_thread, CUhostFn fn, void *data) {
  if (!fn) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  auto call = [fn, data, context = &stream->context] { run_host_function(context, [=] { fn(data); }); };
  Alone hold(stream->context.api_lock);
  bool captured = false;
  r = capture_instead(stream, [&] {
        auto node = std::make_shared<Node>();
        node->node_type = CU_GRAPH_NODE_TYPE_HOST;
        node->host = {fn, data};
        node->work = call;
        return node;
      }, captured);
  if (r != CUDA_SUCCESS || captured) return r;
  submit(stream, make_op(Op::Kind::work, call));
  return outcome();
}

}  // namespace

OpRef launch_op(const Launch &launch) {
  OpRef op = make_op(Op::Kind::kernel, [launch] {
    if (launch.function->kernel.attributes.faults)
      raise_exception(CUDA_ERROR_ILLEGAL_ADDRESS);
    else
      run_grid(launch);
  });
  op->threads_per_block = volume(launch.grid.block);
  op->blocks = volume(launch.grid.grid);
  op->all_blocks_at_once = launch.cooperative;
  op->function = launch.function.get();
  op->grid = launch.grid;
  return op;
}

CUresult prepare_launch(Context &context, const void *handle, const lgsim_grid &grid, unsigned shared_bytes, bool cooperative,
                        void **parameters, void **extra, Launch &launch) {
  FunctionRef function;
  CUresult r = loaded_function(context, handle, function);
  if (r == CUDA_SUCCESS) r = check_grid(*function, grid, shared_bytes, cooperative);
  if (r == CUDA_SUCCESS) r = copy_arguments(function->kernel, parameters, extra, launch.arguments);
  if (r != CUDA_SUCCESS) return r;
  launch.function = function;
  launch.grid = grid;
  launch.shared_bytes = shared_bytes;
  launch.cooperative = cooperative;
  return CUDA_SUCCESS;
}

CUresult set_local_memory_aside(const Function &function) {
  Context &context = function.module.context;
  if (function.kernel.attributes.local_bytes <= context.local_bytes) return CUDA_SUCCESS;
  Alone hold(context.api_lock);
  if (function.kernel.attributes.local_bytes > context.local_bytes) set_local_memory(context, function.kernel.attributes.local_bytes);
  return outcome();
}

}  // namespace lgsim

using namespace lgsim;

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
                        unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra) {
  ENTER();
  return launch_kernel(f, {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}}, sharedMemBytes, hStream, false,
                       kernelParams, extra, false);
}
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                             unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
                             CUstream hStream, void **kernelParams, void **extra) {
  ENTER();
  return launch_kernel(f, {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}}, sharedMemBytes, hStream, true,
                       kernelParams, extra, false);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
  ENTER();
  return launch_config(config, f, kernelParams, extra, false);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
  ENTER();
  return launch_config(config, f, kernelParams, extra, true);
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void **kernelParams) {
  ENTER();
  return launch_kernel(f, {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}}, sharedMemBytes, hStream, false,
                       kernelParams, nullptr, true);
}
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams) {
  ENTER();
  return launch_kernel(f, {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}}, sharedMemBytes, hStream, true,
                       kernelParams, nullptr, true);
}
CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  ENTER();
  return launch_host(hStream, false, fn, userData);
}
CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData) {
  ENTER();
  return launch_host(hStream, true, fn, userData);
}
