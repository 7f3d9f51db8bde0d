// Healthy: a ring of bulk copies that runs for seconds; a dump finds some of them on their way.
//
// expect: slow
#include "inside.cuh"

constexpr int kStages = 2;
constexpr uint32_t kTile = 8192;

__global__ void stream_in(const char* in, float* out, unsigned long long ns) {
  __shared__ alignas(128) char tile[kStages][kTile];
  __shared__ uint64_t full[kStages], empty[kStages];
  __shared__ int last;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      init(&full[i], 1);
      init(&empty[i], 96);
    }
    last = 1 << 30;
    fence_of_init();
  }
  __syncthreads();
  const unsigned long long until = now_ns() + ns;
  if (warp() == 0) {
    if (lane() == 0) {
      for (int n = 0;; n++) {
        const int stage = n % kStages;
        wait(&empty[stage], (n / kStages + 1) % 2);
        const bool is_last = now_ns() >= until;
        if (is_last) last = n;
        arrive_and_expect(&full[stage], kTile);
        copy(tile[stage], in + n % 128 * kTile, kTile, &full[stage]);
        if (is_last) break;
      }
    }
    return;
  }
  float sum = 0;
  for (int n = 0;; n++) {
    const int stage = n % kStages;
    wait(&full[stage], n / kStages % 2);
    sum += reinterpret_cast<float*>(tile[stage])[threadIdx.x];
    const bool is_last = *reinterpret_cast<volatile int*>(&last) == n;
    arrive(&empty[stage]);
    if (is_last) break;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
  const Buffers memory = buffers();
  stream_in<<<4, 128>>>(memory.input, memory.output, duration_ns());
  return finish("stream_in");
}
