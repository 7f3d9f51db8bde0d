// Clusters of two blocks: the second block waits for a flag that nobody sets, and the first one at the cluster's barrier.
//
// expect: LG299 culprit=pair
// inside: 2 of 4 blocks: warps 0 to 3 wait at the cluster's barrier (cluster_barrier.cu:12)
// missing: warps 0 to 3 of the cluster's other blocks spin (cluster_barrier.cu:10)
#include "inside.cuh"

__global__ void __cluster_dims__(2, 1, 1) pair(volatile int* flag, float* out) {
  if (blockIdx.x % 2 == 1)
    while (!*flag) {
    }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

int main() {
  const Buffers memory = buffers();
  pair<<<4, 128>>>(memory.flag, memory.output);
  return finish("pair");
}
