// One thread of each block waits for a flag in the device's memory, which was set to zero and which nobody sets to one.
//
// expect: LG299 culprit=follow
// inside: 2 of 2 blocks: warp 0 spins on memory at
#include "inside.cuh"

__global__ void follow(volatile int* flag, float* out) {
  if (threadIdx.x == 0)
    while (flag[blockIdx.x] != 1) __nanosleep(100);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

int main() {
  const Buffers memory = buffers();
  follow<<<2, 64>>>(memory.flag, memory.output);
  return finish("follow");
}
