// Two warps meet at named barrier 1, which waits for 96 threads.
//
// expect: LG210 culprit=meet
// inside: 2 of 2 blocks: warps 1 and 2 wait at barrier 1 of the block (named_barrier.cu:12) for 96 threads: 64 are there
// missing: warp 0 has exited
#include "inside.cuh"

__global__ void meet(float* out, int threads) {
  __shared__ float value[96];
  value[threadIdx.x] = out[threadIdx.x];
  if (warp() == 0) return;
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
  out[threadIdx.x] = value[(threadIdx.x * 7 + 32) % 96];
}

int main() {
  const Buffers memory = buffers();
  meet<<<2, 96>>>(memory.output, 96);
  return finish("meet");
}
