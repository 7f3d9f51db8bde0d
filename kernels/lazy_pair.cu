// Kernels of lazy_pair and lazy_pair_single_kernel: one kernel spins on a device variable, another sets it; `k` does either, by argument.
// Must stay one translation unit of three kernels: lazy_pair hangs because the second kernel is cold while the first spins.
#include "portable.h"

__device__ volatile int s = 0;

LG_KERNEL void k1() {
  while (s == 0) LG_PAUSE();
}

LG_KERNEL void k2() { s = 1; }

LG_KERNEL void k(int x) {
  if (x == 0) {
    while (s == 0) LG_PAUSE();
  } else {
    s = 1;
  }
}

LG_KERNEL_TABLE(LG_ENTRY(k1), LG_ENTRY(k2), LG_ENTRY(k));
