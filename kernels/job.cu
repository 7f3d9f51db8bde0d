// The small kernels of the route and hostile programs, and of the programs that hang or are slow without anything being cold.
#include "busy.h"

// Two launches, add(1) and add(2), make the 3 of "route ok 3".
LG_KERNEL void add(int* out, int value) { *out += value; }

LG_KERNEL void nothing() {}

// Runs until the word is no longer 0.
LG_KERNEL void spin(volatile int* flag) {
  while (*flag == 0) LG_PAUSE();
}

// Sets the word that `spin` waits for.
LG_KERNEL void release(volatile int* flag) { *flag = 1; }

LG_KERNEL void busy(unsigned long long nanoseconds) { lg_busy(nanoseconds); }

LG_KERNEL_TABLE(LG_ENTRY(add), LG_ENTRY(nothing), LG_ENTRY(spin), LG_ENTRY(release), LG_ENTRY(busy));
