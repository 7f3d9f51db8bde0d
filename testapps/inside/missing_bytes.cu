// The producer promises 16,384 bytes, and its bulk copy brings 8,192.
//
// expect: LG210 culprit=consume
// inside: 2 of 2 blocks: warps 1 to 3 wait at the mbarrier at smem+0x4400 (missing_bytes.cu:24) for phase 0: 8192 bytes are missing
// missing: missing_bytes.cu:21 copies there: warp 0 has exited
#include "inside.cuh"

constexpr uint32_t kTile = 16384;

__global__ void consume(const char* in, float* out, uint32_t brought) {
  __shared__ alignas(128) float tile[kTile / sizeof(float)];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    init(&full, 1);
    fence_of_init();
  }
  __syncthreads();
  if (warp() == 0) {
    if (lane() == 0) {
      arrive_and_expect(&full, kTile);
      copy(tile, in, brought, &full);
    }
  } else {
    wait(&full, 0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
  }
}

int main() {
  const Buffers memory = buffers();
  consume<<<2, 128>>>(memory.input, memory.output, kTile / 2);
  return finish("consume");
}
