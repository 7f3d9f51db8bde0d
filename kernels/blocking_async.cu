// Kernels of blocking_async (the reported program leaves their bodies open). All use grid-stride loops, so that any grid covers the arrays.
#include "busy.h"

LG_KERNEL void add_one(const int* in, int* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] + 1;
}

LG_KERNEL void multiply(int* data, int factor, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] *= factor;
}

// One thread, one increment: launched by the thousand to fill the launch queue.
LG_KERNEL void count(int* counter) { *counter += 1; }

// Keeps its stream busy for a known time and then ends by itself.
LG_KERNEL void busy(unsigned long long nanoseconds) { lg_busy(nanoseconds); }

LG_KERNEL_TABLE(LG_ENTRY(add_one), LG_ENTRY(multiply), LG_ENTRY(count), LG_ENTRY(busy));
