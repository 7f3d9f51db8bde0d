// A worker (worker.hpp) whose launches are cuLaunchKernel, on the simulated driver or a real one.
//
// Usage: launch_worker [--threads T] [--functions F] [--streams S] [--core C] [--evict K]
//   F distinct functions, launched in one shuffled order over and over; S streams in all, in turn, or with 0 one for each thread;
//   C the processor that the first thread is pinned to; K kibibytes of data and of code go through the caches before each launch.
// Many functions come of loading one module many times: every load gives functions of its own.
#include <cuda.h>

#include <numeric>
#include <random>

#include "direct.hpp"
#include "eviction.hpp"
#include "image.hpp"
#include "session.hpp"
#include "worker.hpp"

namespace {

class Launches {
 public:
  Launches(int threads, int functions, int streams, int evicted) : session_(lg::open_session()), threads_(threads), evict_(evicted) {
    functions > 1 ? load_many(functions) : load_one();
    streams_.resize(static_cast<size_t>(streams > 0 ? streams : threads));
    own_streams_ = streams <= 0;
    for (CUstream& stream : streams_) CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    // The same order in every process.
    std::shuffle(functions_.begin(), functions_.end(), std::mt19937(20));
    states_.resize(static_cast<size_t>(threads));
    for (size_t i = 0; i < states_.size(); ++i) {
      CK(cuMemAlloc(&states_[i].memory, 256));
      CK(cuMemsetD32(states_[i].memory, 0, 64));
      states_[i].function = i * functions_.size() / states_.size();
      states_[i].stream = i * streams_.size() / states_.size();
    }
    CK(cuCtxSynchronize());
  }

  void enter(int) { CK(cuCtxSetCurrent(session_.context)); }

  int warm_up() const { return std::max(bench::kWarmUp, static_cast<int>(functions_.size())); }

  int chunk() const { return bench::kChunk; }

  void launch(int thread, int n) { launch(thread, n, cuLaunchKernel); }

  // Past what is preloaded.
  void launch_directly(int thread, int n) { launch(thread, n, directly_); }

  void settle(int thread) {
    // A thread's chunk has gone through no more streams than it has launches.
    if (streams_.size() == 1 || own_streams_) return CK(cuStreamSynchronize(streams_[states_[static_cast<size_t>(thread)].stream]));
    CK(cuCtxSynchronize());
  }

 private:
  struct alignas(128) State {
    size_t function = 0, stream = 0;
    CUdeviceptr memory = 0;
  };

  void launch(int thread, int n, decltype(&cuLaunchKernel) launch_kernel) {
    State state = states_[static_cast<size_t>(thread)];
    void* parameters[] = {&state.memory, nullptr};
    const size_t functions = functions_.size(), streams = own_streams_ ? 0 : streams_.size();
    for (int i = 0; i < n; ++i) {
      evict_();
      CK(launch_kernel(functions_[state.function], 1, 1, 1, 1, 1, 1, 0, streams_[state.stream], parameters, nullptr));
      if (++state.function == functions) state.function = 0;
      if (streams > 1 && ++state.stream == streams) state.stream = 0;
    }
    states_[static_cast<size_t>(thread)] = state;
  }

  void load_one() {
    code_ = lg::image("job");
    CUmodule module;
    CUfunction function;
    CK(cuModuleLoadData(&module, code_.data()));
    CK(cuModuleGetFunction(&function, module, "nothing"));
    functions_ = {function};
  }

  void load_many(int functions) {
    code_ = lg::image("probes");
    for (int n = 0; n < functions;) {
      CUmodule module;
      CK(cuModuleLoadData(&module, code_.data()));
      for (int number = 10; number < 200 && n < functions; ++number, ++n) {
        CUfunction function;
        CK(cuModuleGetFunction(&function, module, ("cold" + std::to_string(number)).c_str()));
        functions_.push_back(function);
      }
    }
  }

  lg::Session session_;
  const int threads_;
  const bench::Eviction evict_;
  decltype(&cuLaunchKernel) const directly_ = bench::directly("cuLaunchKernel", cuLaunchKernel);
  bool own_streams_ = false;
  std::vector<char> code_;
  std::vector<CUfunction> functions_;
  std::vector<CUstream> streams_;
  std::vector<State> states_;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = bench::option(argc, argv, "--threads", 1);
  EXPECT(threads > 0);
  Launches launches(threads, bench::option(argc, argv, "--functions", 1), bench::option(argc, argv, "--streams", 1),
                    bench::option(argc, argv, "--evict", 0));
  return bench::Worker<Launches>(launches, threads, bench::option(argc, argv, "--core", -1)).serve();
}
