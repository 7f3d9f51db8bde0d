// A worker (worker.hpp) whose "launches" are one of the other calls that real loops make, on the simulated driver or a real one.
//
// Usage: call_worker --call NAME [--core C] [--evict K]
//   C the processor that the thread is pinned to; K kibibytes of data and of code go through the caches before each call.
// Each call is about one stream and one object: an allocator, a collective or a graph server repeats it so.
#include <cuda.h>

#include <string>

#include "eviction.hpp"
#include "image.hpp"
#include "session.hpp"
#include "worker.hpp"

namespace {

class Calls {
 public:
  Calls(const std::string& name, int evicted) : name_(name), session_(lg::open_session()), evict_(evicted) {
    for (CUstream* stream : {&stream_, &other_}) CK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    CK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
    CK(cuMemAlloc(&memory_, 256));
    CK(cuMemsetD32(memory_, 0, 64));
    code_ = lg::image("job");
    CUmodule module;
    CUfunction function;
    CK(cuModuleLoadData(&module, code_.data()));
    CK(cuModuleGetFunction(&function, module, "nothing"));
    void* parameters[] = {&memory_, nullptr};
    const auto kernel = [&] { CK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr)); };
    kernel();
    CK(cuStreamSynchronize(stream_));
    CUgraph graph;
    CK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int n = 0; n < 5; ++n) kernel();
    CK(cuStreamEndCapture(stream_, &graph));
    CK(cuGraphInstantiate(&graph_, graph, 0));
    CK(cuEventRecord(event_, stream_));
    CK(cuCtxSynchronize());
  }

  void enter(int) { CK(cuCtxSetCurrent(session_.context)); }

  int warm_up() const { return bench::kWarmUp; }

  void launch(int, int n) {
    if (name_ == "record") return repeat(n, [this] { return cuEventRecord(event_, stream_); });
    if (name_ == "wait-event") return repeat(n, [this] { return cuStreamWaitEvent(other_, event_, 0); });
    if (name_ == "query") return repeat(n, [this] { return cuEventQuery(event_); });
    if (name_ == "write-value") return repeat(n, [this] { return cuStreamWriteValue32(stream_, memory_, 1, 0); });
    if (name_ == "graph") return repeat(n, [this] { return cuGraphLaunch(graph_, stream_); });
    if (name_ == "copy") return repeat(n, [this] { return cuMemcpyDtoDAsync(memory_, memory_ + 128, 64, stream_); });
    if (name_ == "fill") return repeat(n, [this] { return cuMemsetD8Async(memory_, 0, 64, stream_); });
    if (name_ == "synchronize") return repeat(n, [this] { return cuStreamSynchronize(other_); });
    if (name_ == "set-current") return repeat(n, [this] { return cuCtxSetCurrent(session_.context); });
    EXPECT(!"a call of this name");
  }

  void settle(int) { CK(cuCtxSynchronize()); }

 private:
  template <class Call>
  void repeat(int n, Call call) {
    for (int i = 0; i < n; ++i) {
      evict_();
      CK(call());
    }
  }

  const std::string name_;
  lg::Session session_;
  const bench::Eviction evict_;
  std::vector<char> code_;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUgraphExec graph_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  std::string name;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string(argv[i]) == "--call") name = argv[i + 1];
  Calls calls(name, bench::option(argc, argv, "--evict", 0));
  return bench::Worker<Calls>(calls, 1, bench::option(argc, argv, "--core", -1)).serve();
}
