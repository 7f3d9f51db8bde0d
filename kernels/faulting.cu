// The kernel that raises an exception of the device. Its host form does nothing; the simulated driver raises the exception in its place.
#include "portable.h"

LG_KERNEL void reads_bad_address(int *p) {
#ifdef __CUDA_ARCH__
  p[0] = *reinterpret_cast<volatile int *>(8);
#else
  (void)p;
#endif
}

LG_KERNEL_TABLE(LG_ENTRY(reads_bad_address, .faults = true));
