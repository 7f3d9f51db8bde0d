// Healthy: two groups of warps pass a turn to each other by named barriers, and each computes while the other waits.
//
// expect: slow
#include "inside.cuh"

__global__ void ping_pong(float* out, unsigned long long ns) {
  __shared__ float value[64];
  const int group = threadIdx.x / 64;
  float sum = out[threadIdx.x];
  if (group == 1) asm volatile("bar.arrive 1, 128;" ::: "memory");
  for (int turn = 0; turn < 4; turn++) {
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
    sum = compute(ns, sum + value[threadIdx.x % 64]);
    value[threadIdx.x % 64] = sum;
    if (group == 0 || turn < 3) asm volatile("bar.arrive %0, 128;" ::"r"(2 - group) : "memory");
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
  const Buffers memory = buffers();
  ping_pong<<<2, 128>>>(memory.output, duration_ns() / 8);
  return finish("ping_pong");
}
