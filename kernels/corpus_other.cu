// Second translation unit of the corpus: its library is in no context until one of its kernels is used.
#include "portable.h"

LG_KERNEL void other_step(int* counter) { *counter += 1; }

LG_KERNEL void other_set(volatile int* flag) { *flag = 1; }

// Needs 32 KB of local memory a thread on a device, as much as many_locals, and ends when the flag is set.
LG_KERNEL void spin_with_locals(volatile unsigned* flag) {
  volatile unsigned looks[8192];
  looks[0] = 0;
  for (unsigned i = 0; *flag == 0; ++i) looks[(i * 7919) & 8191] = looks[i & 8191] + 1;
}

LG_KERNEL_TABLE(LG_ENTRY(spin_with_locals, .local_bytes = 32768), LG_ENTRY(other_step), LG_ENTRY(other_set));
