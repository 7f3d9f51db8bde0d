// A worker (worker.hpp) of the calls that real loops make, on the simulated driver or a real one: one process measures them all in turn.
//
// Usage: call_worker [--core C] [--evict K] [--nccl PATH]
//   C the processor that the thread is pinned to; K kibibytes of data and of code go through the caches before each call;
//   PATH a library of NCCL, for the call `collective`.
// Each call is about one stream and one object: an allocator, a collective or a graph server repeats it so.
#include <cuda.h>
#include <dlfcn.h>

#include <string>
#include <utility>

#include "eviction.hpp"
#include "image.hpp"
#include "session.hpp"
#include "worker.hpp"

namespace {

// A driver's queue has room for a thousand launches, and a launch of the graph is five of them.
constexpr int kChunk = 100;
constexpr int kWarmUp = 100;

// NCCL, of which the program has no header: a communicator of one rank, whose collective has nothing to do in place.
class Collective {
 public:
  explicit Collective(const char* path) {
    if (path == nullptr) return;
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != nullptr);
    const auto make = reinterpret_cast<int (*)(void**, int, const int*)>(dlsym(library, "ncclCommInitAll"));
    all_reduce_ = reinterpret_cast<decltype(all_reduce_)>(dlsym(library, "ncclAllReduce"));
    EXPECT(make != nullptr && all_reduce_ != nullptr && make(&communicator_, 1, nullptr) == 0);
  }

  // Of floats, which are added up.
  CUresult operator()(CUdeviceptr memory, CUstream stream) const {
    auto* place = reinterpret_cast<void*>(memory);
    return all_reduce_(place, place, 64, 7, 0, communicator_, stream) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  }

 private:
  int (*all_reduce_)(const void*, void*, size_t, int, int, void*, CUstream) = nullptr;
  void* communicator_ = nullptr;
};

class Calls {
 public:
  Calls(int evicted, const char* nccl) : session_(lg::open_session()), evict_(evicted), collective_(nccl) {
    for (CUstream* stream : {&stream_, &other_}) CK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    CK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
    CK(cuMemAlloc(&memory_, 256));
    CK(cuMemsetD32(memory_, 0, 64));
    code_ = lg::image("job");
    CUmodule module;
    CK(cuModuleLoadData(&module, code_.data()));
    CK(cuModuleGetFunction(&function_, module, "nothing"));
    CK(kernel());
    CK(cuStreamSynchronize(stream_));
    CUgraph graph;
    CK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int n = 0; n < 5; ++n) CK(kernel());
    CK(cuStreamEndCapture(stream_, &graph));
    CK(cuGraphInstantiate(&graph_, graph, 0));
    CK(cuEventRecord(event_, stream_));
    // What is freed stays the pool's when all is waited for, as an allocator has it.
    CUmemoryPool pool;
    cuuint64_t all = ~cuuint64_t{0};
    CK(cuDeviceGetDefaultMemPool(&pool, session_.device));
    CK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CK(cuCtxSynchronize());
  }

  void enter(int) { CK(cuCtxSetCurrent(session_.context)); }

  int warm_up() const { return kWarmUp; }

  int chunk() const { return kChunk; }

  void choose(const char* name) { name_ = name; }

  void launch(int, int n) {
    if (name_ == "launch") return repeat(n, [this] { return kernel(); });
    if (name_ == "record") return repeat(n, [this] { return cuEventRecord(event_, stream_); });
    if (name_ == "wait-event") return repeat(n, [this] { return cuStreamWaitEvent(other_, event_, 0); });
    if (name_ == "query") return repeat(n, [this] { return cuEventQuery(event_); });
    if (name_ == "write-value") return repeat(n, [this] { return cuStreamWriteValue32(stream_, memory_, 1, 0); });
    if (name_ == "graph") return repeat(n, [this] { return cuGraphLaunch(graph_, stream_); });
    if (name_ == "copy") return repeat(n, [this] { return cuMemcpyDtoDAsync(memory_, memory_ + 128, 64, stream_); });
    if (name_ == "fill") return repeat(n, [this] { return cuMemsetD8Async(memory_, 0, 64, stream_); });
    if (name_ == "allocate-free") return repeat(n, [this] { return allocate_or_free(); });
    if (name_ == "synchronize") return repeat(n, [this] { return cuStreamSynchronize(other_); });
    if (name_ == "set-current") return repeat(n, [this] { return cuCtxSetCurrent(session_.context); });
    if (name_ == "collective") return repeat(n, [this] { return collective_(memory_, stream_); });
    EXPECT(!"a call of this name");
  }

  void settle(int) { CK(cuCtxSynchronize()); }

 private:
  CUresult kernel() {
    void* parameters[] = {&memory_, nullptr};
    return cuLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr);
  }

  CUresult allocate_or_free() {
    if (allocated_ == 0) return cuMemAllocAsync(&allocated_, 256, stream_);
    return cuMemFreeAsync(std::exchange(allocated_, 0), stream_);
  }

  template <class Call>
  void repeat(int n, Call call) {
    for (int i = 0; i < n; ++i) {
      evict_();
      CK(call());
    }
  }

  std::string name_ = "launch";
  lg::Session session_;
  const bench::Eviction evict_;
  std::vector<char> code_;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr;
  CUfunction function_ = nullptr;
  CUdeviceptr memory_ = 0, allocated_ = 0;
  CUgraphExec graph_ = nullptr;
  const Collective collective_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* nccl = nullptr;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string(argv[i]) == "--nccl") nccl = argv[i + 1];
  Calls calls(bench::option(argc, argv, "--evict", 0), nccl);
  return bench::Worker<Calls>(calls, 1, bench::option(argc, argv, "--core", -1)).serve();
}
