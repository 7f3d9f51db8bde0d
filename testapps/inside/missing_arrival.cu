// Two producers' warps arrive at a barrier for two; in all blocks but the first, the second producer skips its arrival and waits for the block.
//
// expect: LG210 culprit=reduce_tile
// inside: 3 of 3 blocks: warps 2 and 3 wait at the mbarrier at smem+0x400 (missing_arrival.cu:19) for phase 0: 1 of 2 arrivals is missing
// missing: missing_arrival.cu:14 and missing_arrival.cu:17 arrive there: warps 0 and 1, behind that, wait at the block's barrier
#include "inside.cuh"

__global__ void reduce_tile(float* out) {
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, 2);
  __syncthreads();
  float value = out[threadIdx.x];
  if (warp() == 0) {
    if (lane() == 0) arrive(&full);
  } else if (warp() == 1) {
    value = value * 2 + 1;
    if (lane() == 0 && blockIdx.x == 0) arrive(&full);
  } else {
    wait(&full, 0);
    value += 3;
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main() {
  const Buffers memory = buffers();
  reduce_tile<<<4, 128>>>(memory.output);
  return finish("reduce_tile");
}
