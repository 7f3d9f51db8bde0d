// Second translation unit of persistent_two_libraries: its library is not in the context when the persistent kernel already runs.
#include "portable.h"

LG_KERNEL void one_time_kernel(int* out) { *out = 42; }

LG_KERNEL_TABLE(LG_ENTRY(one_time_kernel));
