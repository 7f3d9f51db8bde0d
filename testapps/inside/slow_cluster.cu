// Healthy: the first block of a cluster waits at the cluster's barrier while the second one computes.
//
// expect: slow
#include "inside.cuh"

__global__ void __cluster_dims__(2, 1, 1) uneven(float* out, unsigned long long ns) {
  float value = out[threadIdx.x];
  if (blockIdx.x % 2 == 1) value = compute(ns, value);
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main() {
  const Buffers memory = buffers();
  uneven<<<4, 128>>>(memory.output, duration_ns());
  return finish("uneven");
}
