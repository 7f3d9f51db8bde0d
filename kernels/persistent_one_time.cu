// Kernels of persistent_one_time: both in one translation unit, so in one library.
#include "portable.h"

// Runs until the host writes something other than 0 to the mapped word.
LG_KERNEL void persistent_kernel(volatile int* stop) {
  while (*stop == 0) LG_PAUSE();
}

LG_KERNEL void one_time_kernel(int* out) { *out = 42; }

LG_KERNEL_TABLE(LG_ENTRY(persistent_kernel), LG_ENTRY(one_time_kernel));
