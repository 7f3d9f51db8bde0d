// The barrier counts 64 threads, and the 32 of one warp arrive.
//
// expect: LG210 culprit=stage_in
// inside: 2 of 2 blocks: warp 1 waits at the mbarrier at smem+0x480 (wrong_count.cu:17) for phase 0: 32 of 64 arrivals are missing
// missing: wrong_count.cu:15 arrives there: warp 0 has exited
#include "inside.cuh"

__global__ void stage_in(const float* in, float* out) {
  __shared__ float stage[32];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, blockDim.x);
  __syncthreads();
  if (warp() == 0) {
    stage[lane()] = in[lane()];
    arrive(&full);
  } else {
    wait(&full, 0);
    out[blockIdx.x * 32 + lane()] = stage[lane()];
  }
}

int main() {
  const Buffers memory = buffers();
  stage_in<<<2, 64>>>(reinterpret_cast<float*>(memory.input), memory.output);
  return finish("stage_in");
}
