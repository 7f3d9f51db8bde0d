// A kernel that never ends and leaves no place: all threads of each multiprocessor, and its shared memory.
#include <cuda_runtime.h>

#include <cstdio>

namespace {
constexpr int kBlocks = 8, kThreads = 256;
// The driver keeps as much of each block's for itself.
constexpr int kReserved = 1024;
}  // namespace

__global__ void __launch_bounds__(kThreads, kBlocks) fill_and_stay(volatile int* flag) {
  extern __shared__ int held[];
  held[threadIdx.x] = blockIdx.x;
  while (*flag == 0) held[threadIdx.x] += 1;
}

int main() {
  int* flag;
  cudaDeviceProp device;
  if (cudaGetDeviceProperties(&device, 0) || cudaMalloc(&flag, sizeof *flag) || cudaMemset(flag, 0, sizeof *flag)) return 1;
  const int bytes = static_cast<int>(device.sharedMemPerMultiprocessor) / kBlocks - kReserved;
  if (cudaFuncSetAttribute(fill_and_stay, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)) return 1;
  fill_and_stay<<<device.multiProcessorCount * kBlocks, kThreads, bytes>>>(flag);
  std::printf("%d blocks of %d threads, %d bytes each\n", device.multiProcessorCount * kBlocks, kThreads, bytes);
  std::fflush(stdout);
  return cudaDeviceSynchronize();
}
