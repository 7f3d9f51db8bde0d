// Three fragments of a forum question as one program that runs, the kernels defined and the buffers allocated (and smaller). Pageable
// asynchronous copies, a launch that depends on one, the look at the last error, dependencies between streams, the legacy stream, and a
// queue of launches; everything that "asynchronous" calls block on.
//
// bare:    completes, prints seven lines (with --times also, on stderr, how long each phase's submissions and their completion took)
// guarded: completes, same output
// off:     completes, no verdict
#include <chrono>
#include <cstring>
#include <vector>

#include "check_runtime.hpp"

__global__ void add_one(const int* in, int* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] + 1;
}

__global__ void multiply(int* data, int factor, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] *= factor;
}

__global__ void count(int* counter) { *counter += 1; }

__device__ unsigned long long now_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// Keeps its stream busy for a known time and then ends by itself.
__global__ void busy(unsigned long long nanoseconds) {
  const unsigned long long until = now_ns() + nanoseconds;
  while (now_ns() < until) {}
}

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

void expect_all(const int* memory, int value) {
  std::vector<int> host(kElements);
  CK(cudaMemcpy(host.data(), memory, kBytes, cudaMemcpyDeviceToHost));
  for (const int element : host) EXPECT(element == value);
}

}  // namespace

int main(int argc, char** argv) {
  times = argc > 1 && std::strcmp(argv[1], "--times") == 0;
  std::vector<int> host_data1(kElements, 1);
  cudaStream_t stream1, stream2;
  CK(cudaStreamCreate(&stream1));
  CK(cudaStreamCreate(&stream2));
  int *d_array1 = nullptr, *d_array2 = nullptr;
  CK(cudaMalloc(&d_array1, kBytes));
  CK(cudaMalloc(&d_array2, kBytes));
  cudaEvent_t copied;
  CK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));

  {
    // Example 1. The question leaves the kernel's dependency on the copy to chance; the event states it.
    Phase phase("resource contention");
    CK(cudaMemcpyAsync(d_array1, host_data1.data(), kBytes, cudaMemcpyHostToDevice, stream1));
    CK(cudaEventRecord(copied, stream1));
    CK(cudaStreamWaitEvent(stream2, copied));
    add_one<<<kBlocks, kThreads, 0, stream2>>>(d_array1, d_array2, kElements);
    phase.submitted();
    CK(cudaDeviceSynchronize());
    expect_all(d_array2, 2);
  }
  {
    // Example 2. Looking at the last error makes no driver call and waits for nothing.
    Phase phase("implicit synchronization");
    multiply<<<kBlocks, kThreads, 0, stream1>>>(d_array1, 3, kElements);
    const cudaError_t err = cudaGetLastError();
    std::printf("last error: %s\n", cudaGetErrorString(err));
    phase.submitted();
    CK(cudaStreamSynchronize(stream1));
    expect_all(d_array1, 3);
  }
  {
    // Example 3.
    Phase phase("stream dependencies");
    CK(cudaMemcpyAsync(d_array1, host_data1.data(), kBytes, cudaMemcpyHostToDevice, stream1));
    CK(cudaEventRecord(copied, stream1));
    CK(cudaStreamWaitEvent(stream2, copied));
    multiply<<<kBlocks, kThreads, 0, stream2>>>(d_array1, 5, kElements);
    add_one<<<kBlocks, kThreads, 0, stream2>>>(d_array1, d_array2, kElements);
    phase.submitted();
    CK(cudaStreamSynchronize(stream2));
    expect_all(d_array2, 6);
  }
  {
    // What its title asks: a pageable copy on a stream that is busy holds the host until the stream is not.
    Phase phase("pageable copy on a busy stream");
    busy<<<1, 1, 0, stream1>>>(kHeldNs);
    CK(cudaMemcpyAsync(d_array1, host_data1.data(), kBytes, cudaMemcpyHostToDevice, stream1));
    CK(cudaMemcpyAsync(host_data1.data(), d_array2, kBytes, cudaMemcpyDeviceToHost, stream1));
    phase.submitted();
    CK(cudaStreamSynchronize(stream1));
    for (const int element : host_data1) EXPECT(element == 6);
    expect_all(d_array1, 1);
  }
  {
    // The legacy stream waits for the blocking streams, and they for it.
    Phase phase("legacy stream");
    busy<<<1, 1, 0, stream1>>>(kBusyNs);
    multiply<<<kBlocks, kThreads, 0, stream1>>>(d_array1, 2, kElements);
    add_one<<<kBlocks, kThreads>>>(d_array1, d_array2, kElements);
    multiply<<<kBlocks, kThreads, 0, stream2>>>(d_array2, 7, kElements);
    phase.submitted();
    CK(cudaStreamSynchronize(stream2));
    expect_all(d_array2, 21);
  }
  {
    // More launches than the queue holds, behind work that ends: some of them wait, all of them run.
    Phase phase("queue of launches");
    CK(cudaMemset(d_array1, 0, sizeof(int)));
    busy<<<1, 1, 0, stream1>>>(kHeldNs);
    for (int i = 0; i < kQueued; ++i) count<<<1, 1, 0, stream1>>>(d_array1);
    phase.submitted();
    CK(cudaStreamSynchronize(stream1));
    int counted = 0;
    CK(cudaMemcpy(&counted, d_array1, sizeof counted, cudaMemcpyDeviceToHost));
    EXPECT(counted == kQueued);
  }
  CK(cudaGetLastError());

  CK(cudaEventDestroy(copied));
  CK(cudaFree(d_array1));
  CK(cudaFree(d_array2));
  CK(cudaStreamDestroy(stream1));
  CK(cudaStreamDestroy(stream2));
  return 0;
}
