// Each of two warps waits at a barrier at which the other one would arrive after its own wait.
//
// expect: LG210 culprit=exchange
// inside: 2 of 2 blocks: warp 0 waits at the mbarrier at smem+0x400 (opposite_order.cu:18) for phase 0: 1 of 1 arrivals is missing
// missing: opposite_order.cu:24 arrives there: warp 1 waits at the mbarrier at smem+0x408 (opposite_order.cu:22)
#include "inside.cuh"

__global__ void exchange(float* out) {
  __shared__ uint64_t left, right;
  __shared__ float value[64];
  if (threadIdx.x == 0) {
    init(&left, 1);
    init(&right, 1);
  }
  __syncthreads();
  value[threadIdx.x] = out[threadIdx.x];
  if (warp() == 0) {
    wait(&left, 0);
    out[lane()] = value[lane() + 32];
    if (lane() == 0) arrive(&right);
  } else {
    wait(&right, 0);
    out[lane() + 32] = value[lane()];
    if (lane() == 0) arrive(&left);
  }
}

int main() {
  const Buffers memory = buffers();
  exchange<<<2, 64>>>(memory.output);
  return finish("exchange");
}
