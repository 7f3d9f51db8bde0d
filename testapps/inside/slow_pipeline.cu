// Healthy: the consumers wait at a barrier for a producer that computes for seconds before each arrival.
//
// expect: slow
#include "inside.cuh"

__global__ void slow_producer(float* out, unsigned long long ns, int tiles) {
  __shared__ uint64_t full, empty;
  __shared__ float stage[32];
  if (threadIdx.x == 0) {
    init(&full, 32);
    init(&empty, 96);
  }
  __syncthreads();
  if (warp() == 0) {
    for (int tile = 0; tile < tiles; tile++) {
      wait(&empty, (tile + 1) % 2);
      stage[lane()] = compute(ns, out[lane()]);
      arrive(&full);
    }
  } else {
    float sum = 0;
    for (int tile = 0; tile < tiles; tile++) {
      wait(&full, tile % 2);
      sum += stage[lane()];
      arrive(&empty);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  }
}

int main() {
  const Buffers memory = buffers();
  slow_producer<<<2, 128>>>(memory.output, duration_ns() / 4, 4);
  return finish("slow_producer");
}
