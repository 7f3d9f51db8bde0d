// A pipeline of one stage: the producer waits for the empty stage with the consumer's first phase, 0 and not 1, so that each waits for the other.
//
// expect: LG210 culprit=gemm
// inside: 2 of 2 blocks: warp 0 waits at the mbarrier at smem+0x408 (wrong_phase.cu:19) for phase 0: 1 of 1 arrivals is missing
// missing: wrong_phase.cu:31 arrives there: warp 1 waits at the mbarrier at smem+0x400 (wrong_phase.cu:28)
#include "inside.cuh"

__global__ void gemm(const float* in, float* out, int tiles) {
  __shared__ uint64_t full, empty;
  __shared__ float stage[32];
  if (threadIdx.x == 0) {
    init(&full, 1);
    init(&empty, 1);
  }
  __syncthreads();
  if (warp() == 0) {
    uint32_t phase = 0;  // right: 1
    for (int tile = 0; tile < tiles; tile++, phase ^= 1) {
      wait(&empty, phase);
      stage[lane()] = in[tile * 32 + lane()];
      __syncwarp();
      if (lane() == 0) arrive(&full);
    }
  } else {
    uint32_t phase = 0;
    float sum = 0;
    for (int tile = 0; tile < tiles; tile++, phase ^= 1) {
      wait(&full, phase);
      sum += stage[lane()];
      __syncwarp();
      if (lane() == 0) arrive(&empty);
    }
    out[blockIdx.x * 32 + lane()] = sum;
  }
}

int main() {
  const Buffers memory = buffers();
  gemm<<<2, 64>>>(reinterpret_cast<float*>(memory.input), memory.output, 8);
  return finish("gemm");
}
