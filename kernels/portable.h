// One kernel source, two compilers: nvcc makes device code of it, g++ makes the shared object that the simulated driver runs.
//
// A source writes its kernels with LG_KERNEL, calls LG_PAUSE() inside every loop that waits for memory, and ends with
// LG_KERNEL_TABLE(LG_ENTRY(k1), LG_ENTRY(k2, .local_bytes = 32768)). Device variables are ordinary globals on the host.
//
// On the host the threads of a block run one after the other, and so do the blocks unless .blocks_together is set. There is
// therefore no __syncthreads() here: a kernel that needs it does not compile for the host instead of hanging there.
#ifndef LAZYGUARD_PORTABLE_H
#define LAZYGUARD_PORTABLE_H

#if defined(__CUDACC__)

#include <cstdint>
#include <cstdio>

#define LG_KERNEL extern "C" __global__
#define LG_PAUSE()
#define LG_ENTRY(...)
#define LG_KERNEL_TABLE(...)

#else

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <type_traits>
#include <utility>

#include "kernel_table.h"

#define LG_KERNEL extern "C" __attribute__((visibility("default")))
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One host thread runs a whole block, so a block's shared memory is that thread's.
#define __shared__ static thread_local

// Hidden, so that two loaded images never share an instance of what follows.
#pragma GCC visibility push(hidden)

static thread_local lgsim_dim3 threadIdx [[maybe_unused]];
static thread_local lgsim_dim3 blockIdx [[maybe_unused]];
static thread_local lgsim_dim3 blockDim [[maybe_unused]];
static thread_local lgsim_dim3 gridDim [[maybe_unused]];

inline long long clock64() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// A spinning kernel may spin for minutes on a machine with two cores: it must leave them to the others. So it pauses for longer the longer
// it has spun, up to a millisecond; by a hundredth at most, since some kernels spin for a span of time.
inline void lgsim_pause() {
  static thread_local long long since, last;
  const long long now = clock64();
  // Another loop, or another kernel.
  if (now - last > 1000 * 1000) since = now;
  long long nanoseconds = (now - since) / 100;
  if (nanoseconds < 50 * 1000) nanoseconds = 50 * 1000;
  if (nanoseconds > 1000 * 1000) nanoseconds = 1000 * 1000;
  const timespec pause{0, static_cast<long>(nanoseconds)};
  nanosleep(&pause, nullptr);
  last = clock64();
}
#define LG_PAUSE() lgsim_pause()

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned nanoseconds) {
  timespec pause{0, static_cast<long>(nanoseconds)};
  nanosleep(&pause, nullptr);
}
template <class T> T atomicAdd(T *address, T value) { return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST); }
template <class T> T atomicOr(T *address, T value) { return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST); }
template <class T> T atomicExch(T *address, T value) { return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST); }
template <class T> T atomicCAS(T *address, T expected, T value) {
  __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}

template <auto Kernel> struct lgsim_thunk;

template <class... Parameters, void (*Kernel)(Parameters...)> struct lgsim_thunk<Kernel> {
  static constexpr unsigned count = sizeof...(Parameters);
  struct Layout {
    size_t sizes[count + 1] = {sizeof(Parameters)..., 0};
    size_t offsets[count + 1] = {};
    constexpr Layout() {
      const size_t alignments[count + 1] = {alignof(Parameters)..., 1};
      size_t end = 0;
      for (unsigned i = 0; i < count; i++) {
        offsets[i] = (end + alignments[i] - 1) / alignments[i] * alignments[i];
        end = offsets[i] + sizes[i];
      }
      offsets[count] = end;
    }
  };
  static constexpr Layout layout{};

  template <size_t... I> static void call(void **params, std::index_sequence<I...>) {
    Kernel(*static_cast<std::remove_cv_t<Parameters> *>(params[I])...);
  }

  static void run(const lgsim_grid &grid, size_t first, size_t blocks, void **params) {
    gridDim = grid.grid;
    blockDim = grid.block;
    for (size_t block = first; block < first + blocks; block++) {
      blockIdx.x = static_cast<unsigned>(block % grid.grid.x);
      blockIdx.y = static_cast<unsigned>(block / grid.grid.x % grid.grid.y);
      blockIdx.z = static_cast<unsigned>(block / grid.grid.x / grid.grid.y);
      for (threadIdx.z = 0; threadIdx.z < grid.block.z; threadIdx.z++)
        for (threadIdx.y = 0; threadIdx.y < grid.block.y; threadIdx.y++)
          for (threadIdx.x = 0; threadIdx.x < grid.block.x; threadIdx.x++)
            call(params, std::make_index_sequence<count>());
    }
  }
};

template <auto Kernel> constexpr lgsim_kernel lgsim_entry(const char *name, lgsim_attributes attributes) {
  using Thunk = lgsim_thunk<Kernel>;
  return {name, &Thunk::run, Thunk::count, Thunk::layout.sizes, Thunk::layout.offsets, attributes};
}

#pragma GCC visibility pop

#define LG_ENTRY(kernel, ...) lgsim_entry<&kernel>(#kernel, lgsim_attributes{__VA_ARGS__})
#define LG_KERNEL_TABLE(...)                                                                         \
  extern "C" {                                                                                       \
  extern const lgsim_kernel lgsim_kernels[] __attribute__((visibility("default")));                  \
  const lgsim_kernel lgsim_kernels[] = {__VA_ARGS__, {nullptr, nullptr, 0, nullptr, nullptr, {}}};   \
  }

#endif
#endif
