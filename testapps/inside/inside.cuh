// What the kernels of this folder share: barriers in shared memory as CUTLASS makes them, and the frame of a program.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

__device__ inline uint32_t at(const void* shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(shared)); }
__device__ inline uint32_t warp() { return threadIdx.x / 32; }
__device__ inline uint32_t lane() { return threadIdx.x % 32; }

__device__ inline void init(uint64_t* barrier, uint32_t arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(barrier)), "r"(arrivals) : "memory"); }
__device__ inline void arrive(uint64_t* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(barrier)) : "memory"); }
__device__ inline void arrive_and_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(barrier)), "r"(bytes) : "memory");
}
__device__ inline void wait(uint64_t* barrier, uint32_t phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(at(barrier)),
      "r"(phase)
      : "memory");
}
__device__ inline void copy(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(to)), "l"(from), "r"(bytes), "r"(at(barrier)) : "memory");
}
__device__ inline void fence_of_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline unsigned long long now_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
// Work that takes so long, and waits for nobody.
__device__ inline float compute(unsigned long long ns, float seed) {
  const unsigned long long until = now_ns() + ns;
  while (now_ns() < until)
    for (int i = 0; i < 1000; i++) seed = seed * 1.0001f + 0.5f;
  return seed;
}

struct Buffers {
  int* flag;      // in the device's memory, zero
  char* input;    // 1 MiB
  float* output;  // 1 MiB
};

inline Buffers buffers() {
  Buffers made{};
  cudaMalloc(&made.flag, 256);
  cudaMalloc(&made.input, 1 << 20);
  cudaMalloc(&made.output, 1 << 20);
  cudaMemset(made.flag, 0, 256);
  cudaMemset(made.input, 0, 1 << 20);
  cudaDeviceSynchronize();
  return made;
}

// How long a healthy kernel takes: SECONDS, 20 by default.
inline unsigned long long duration_ns() {
  const char* seconds = std::getenv("SECONDS_OF_WORK");
  return (seconds ? std::strtoull(seconds, nullptr, 10) : 20) * 1'000'000'000ull;
}

inline int finish(const char* kernel) {
  std::printf("%s: launched\n", kernel);
  std::fflush(stdout);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%s: %s\n", kernel, cudaGetErrorString(error));
  return error != cudaSuccess;
}
