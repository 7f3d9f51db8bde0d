// One translation unit: a persistent kernel spins on a mapped host word, a one-time kernel goes to another stream, that
// stream is synchronized, and only then does the host release the persistent one.
// build: --default-stream per-thread
//
// bare:    hangs in cudaStreamSynchronize (the one-time kernel's load put a barrier behind the persistent one)
// guarded: completes, prints two lines
// off:     hangs, LG201
#include "check_runtime.hpp"

__global__ void PersistentKernel(volatile int* stop) {
  while (*stop == 0) {}
}

__global__ void OneTimeKernel(volatile int* out) { *out = 42; }

int main() {
  int* words = nullptr;
  CK(cudaHostAlloc(&words, 2 * sizeof(int), cudaHostAllocMapped));
  volatile int* const stop = words;
  volatile int* const result = words + 1;
  *stop = 0;
  *result = 0;
  int* device_words = nullptr;
  CK(cudaHostGetDevicePointer(&device_words, words, 0));
  cudaStream_t persistent, one_time;
  CK(cudaStreamCreateWithFlags(&persistent, cudaStreamNonBlocking));
  CK(cudaStreamCreateWithFlags(&one_time, cudaStreamNonBlocking));

  PersistentKernel<<<1, 1, 0, persistent>>>(device_words);
  CK(cudaGetLastError());
  OneTimeKernel<<<1, 1, 0, one_time>>>(device_words + 1);
  CK(cudaGetLastError());
  CK(cudaStreamSynchronize(one_time));
  EXPECT(*result == 42);
  std::puts("one-time kernel wrote 42");

  *stop = 1;
  CK(cudaStreamSynchronize(persistent));
  std::puts("persistent kernel stopped");
  CK(cudaStreamDestroy(persistent));
  CK(cudaStreamDestroy(one_time));
  CK(cudaFreeHost(words));
  return 0;
}
