// Second translation unit of the corpus: its library is in no context until one of its kernels is used.
#include "portable.h"

LG_KERNEL void other_step(int* counter) { *counter += 1; }

LG_KERNEL void other_set(volatile int* flag) { *flag = 1; }

LG_KERNEL_TABLE(LG_ENTRY(other_step), LG_ENTRY(other_set));
