// First translation unit of persistent_two_libraries: the kernel that does not end by itself.
#include "portable.h"

LG_KERNEL void persistent_kernel(volatile int* stop) {
  while (*stop == 0) LG_PAUSE();
}

LG_KERNEL_TABLE(LG_ENTRY(persistent_kernel));
