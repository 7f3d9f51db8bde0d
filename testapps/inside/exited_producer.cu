// A ring of four stages in dynamic shared memory: the producer's warp leaves its loop at a tile that it takes for the last one, and the consumers
// wait for the next.
//
// expect: LG210 culprit=attention
// inside: 3 of 3 blocks: warps 4 to 7 wait at the mbarrier at smem+0x8410 (exited_producer.cu:43) for phase 1: 1 of 1 arrivals is missing
// missing: exited_producer.cu:34 arrives there: warps 0 to 3 have exited
#include "inside.cuh"

constexpr int kStages = 4;
constexpr uint32_t kTile = 8192;

struct Shared {
  char tile[kStages][kTile];
  uint64_t full[kStages], empty[kStages];
};

__global__ void attention(const char* in, float* out, int tiles, int last) {
  extern __shared__ __align__(128) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      init(&shared.full[i], 1);
      init(&shared.empty[i], 4);
    }
    fence_of_init();
  }
  __syncthreads();
  if (warp() < 4) {
    if (threadIdx.x == 0) {
      for (int tile = 0; tile < tiles; tile++) {
        if (tile == last) break;
        const int stage = tile % kStages;
        wait(&shared.empty[stage], (tile / kStages + 1) % 2);
        arrive_and_expect(&shared.full[stage], kTile);
        copy(shared.tile[stage], in + tile * kTile, kTile, &shared.full[stage]);
      }
    }
    return;
  }
  float sum = 0;
  for (int tile = 0; tile < tiles; tile++) {
    const int stage = tile % kStages;
    wait(&shared.full[stage], tile / kStages % 2);
    sum += reinterpret_cast<float*>(shared.tile[stage])[threadIdx.x];
    __syncwarp();
    if (lane() == 0) arrive(&shared.empty[stage]);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
  const Buffers memory = buffers();
  cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  attention<<<3, 256, sizeof(Shared)>>>(memory.input, memory.output, 32, 6);
  return finish("attention");
}
