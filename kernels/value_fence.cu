// Kernel of value_fence, as it was reported.
#include "portable.h"

LG_KERNEL void trivial_kernel(int* data, int value) {
  // Just touch one int so we have *some* kernel work
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    data[0] = value;
  }
}

LG_KERNEL_TABLE(LG_ENTRY(trivial_kernel));
