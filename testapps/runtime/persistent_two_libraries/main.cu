// Two translation units: as persistent_one_time, but the one-time kernel is in one_time.cu, so in another library, which
// nothing loads before the persistent kernel runs.
//
// bare:    hangs in the one-time kernel's launch (its module cannot enter the context)
// guarded: completes, prints two lines
// off:     hangs, LG202
#include "check_runtime.hpp"
#include "one_time.cuh"

__global__ void PersistentKernel(volatile int* stop) {
  while (*stop == 0) {}
}

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
  launch_one_time(device_words + 1, one_time);
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
