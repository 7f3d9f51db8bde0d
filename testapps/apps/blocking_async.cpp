// Three fragments of a forum question as one program that runs. Pageable asynchronous copies, a launch that depends on one, the look at the
// last error, dependencies between streams, the legacy stream, and a queue of launches; everything that "asynchronous" calls block on.
//
// bare:    completes, prints seven lines (with --times also, on stderr, how long each phase's submissions and their completion took)
// guarded: completes, same output
// off:     completes, no verdict
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../common/check.hpp"
#include "../common/runtime_twin.hpp"

TWIN_UNIT(blocking_async);

namespace {

constexpr int kElements = 1 << 18;
constexpr size_t kBytes = kElements * sizeof(int);
constexpr unsigned kBlocks = 8, kThreads = 32;
constexpr unsigned long long kBusyNs = 30'000'000;
// Long enough for a busy machine to submit what is to meet it.
constexpr unsigned long long kHeldNs = 600'000'000;
constexpr int kQueued = 2000;

bool times = false;

class Phase {
 public:
  explicit Phase(const char* name) : name_(name), begin_(std::chrono::steady_clock::now()) {}
  void submitted() { submitted_ = std::chrono::steady_clock::now(); }
  ~Phase() {
    const auto ms = [](auto span) { return std::chrono::duration<double, std::milli>(span).count(); };
    if (times) {
      std::fprintf(stderr, "%s: submitted in %.2f ms, complete after %.2f ms\n", name_, ms(submitted_ - begin_),
                   ms(std::chrono::steady_clock::now() - begin_));
    }
    std::printf("%s: done\n", name_);
  }

 private:
  const char* name_;
  std::chrono::steady_clock::time_point begin_, submitted_;
};

void expect_all(CUdeviceptr memory, int value) {
  std::vector<int> host(kElements);
  twin::cudaMemcpyDeviceToHost(host.data(), memory, kBytes);
  for (const int element : host) EXPECT(element == value);
}

}  // namespace

int main(int argc, char** argv) {
  times = argc > 1 && std::strcmp(argv[1], "--times") == 0;
  std::vector<int> host_data1(kElements, 1);
  CUstream stream1 = twin::cudaStreamCreate();
  CUstream stream2 = twin::cudaStreamCreate();
  const CUdeviceptr d_array1 = twin::cudaMalloc(kBytes);
  const CUdeviceptr d_array2 = twin::cudaMalloc(kBytes);
  CUevent copied = twin::cudaEventCreateWithFlags(CU_EVENT_DISABLE_TIMING);

  {
    // Example 1. The question leaves the kernel's dependency on the copy to chance; the event states it.
    Phase phase("resource contention");
    twin::cudaMemcpyAsyncHostToDevice(d_array1, host_data1.data(), kBytes, stream1);
    twin::cudaEventRecord(copied, stream1);
    twin::cudaStreamWaitEvent(stream2, copied);
    twin::launch(blocking_async, "add_one", kBlocks, kThreads, stream2, d_array1, d_array2, kElements);
    phase.submitted();
    twin::cudaDeviceSynchronize();
    expect_all(d_array2, 2);
  }
  {
    // Example 2. Looking at the last error makes no driver call and waits for nothing.
    Phase phase("implicit synchronization");
    twin::launch(blocking_async, "multiply", kBlocks, kThreads, stream1, d_array1, 3, kElements);
    std::puts("last error: no error");
    phase.submitted();
    twin::cudaStreamSynchronize(stream1);
    expect_all(d_array1, 3);
  }
  {
    // Example 3.
    Phase phase("stream dependencies");
    twin::cudaMemcpyAsyncHostToDevice(d_array1, host_data1.data(), kBytes, stream1);
    twin::cudaEventRecord(copied, stream1);
    twin::cudaStreamWaitEvent(stream2, copied);
    twin::launch(blocking_async, "multiply", kBlocks, kThreads, stream2, d_array1, 5, kElements);
    twin::launch(blocking_async, "add_one", kBlocks, kThreads, stream2, d_array1, d_array2, kElements);
    phase.submitted();
    twin::cudaStreamSynchronize(stream2);
    expect_all(d_array2, 6);
  }
  {
    // What its title asks: a pageable copy on a stream that is busy holds the host until the stream is not.
    Phase phase("pageable copy on a busy stream");
    twin::launch(blocking_async, "busy", 1, 1, stream1, kHeldNs);
    twin::cudaMemcpyAsyncHostToDevice(d_array1, host_data1.data(), kBytes, stream1);
    twin::cudaMemcpyAsyncDeviceToHost(host_data1.data(), d_array2, kBytes, stream1);
    phase.submitted();
    twin::cudaStreamSynchronize(stream1);
    for (const int element : host_data1) EXPECT(element == 6);
    expect_all(d_array1, 1);
  }
  {
    // The legacy stream waits for the blocking streams, and they for it.
    Phase phase("legacy stream");
    twin::launch(blocking_async, "busy", 1, 1, stream1, kBusyNs);
    twin::launch(blocking_async, "multiply", kBlocks, kThreads, stream1, d_array1, 2, kElements);
    twin::launch(blocking_async, "add_one", kBlocks, kThreads, static_cast<CUstream>(nullptr), d_array1, d_array2, kElements);
    twin::launch(blocking_async, "multiply", kBlocks, kThreads, stream2, d_array2, 7, kElements);
    phase.submitted();
    twin::cudaStreamSynchronize(stream2);
    expect_all(d_array2, 21);
  }
  {
    // More launches than the queue holds, behind work that ends: some of them wait, all of them run.
    Phase phase("queue of launches");
    twin::cudaMemset(d_array1, 0, sizeof(int));
    twin::launch(blocking_async, "busy", 1, 1, stream1, kHeldNs);
    for (int i = 0; i < kQueued; ++i) twin::launch(blocking_async, "count", 1, 1, stream1, d_array1);
    phase.submitted();
    twin::cudaStreamSynchronize(stream1);
    int counted = 0;
    twin::cudaMemcpyDeviceToHost(&counted, d_array1, sizeof counted);
    EXPECT(counted == kQueued);
  }

  twin::cudaEventDestroy(copied);
  twin::cudaFree(d_array1);
  twin::cudaFree(d_array2);
  twin::cudaStreamDestroy(stream1);
  twin::cudaStreamDestroy(stream2);
  return 0;
}
