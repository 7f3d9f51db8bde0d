// Kernels of the programs of testapps/oracle: all do the same, so that a launch is known by its kernel's name.
#include "busy.h"

// Waits until a word has reached a value, where there is one; lasts; then raises a word, where there is one.
__device__ inline void lg_oracle(volatile unsigned* until, unsigned reaches, unsigned long long nanoseconds, volatile unsigned* raised, unsigned to) {
  while (until != nullptr && *until < reaches) LG_PAUSE();
  lg_busy(nanoseconds);
  __threadfence_system();
  if (raised != nullptr && *raised < to) *raised = to;
}

#define ORACLE_KERNEL(name)                                                                                                         \
  LG_KERNEL void name(volatile unsigned* until, unsigned reaches, unsigned long long nanoseconds, volatile unsigned* raised, unsigned to) { \
    lg_oracle(until, reaches, nanoseconds, raised, to);                                                                             \
  }

ORACLE_KERNEL(k0)
ORACLE_KERNEL(k1)
ORACLE_KERNEL(k2)
ORACLE_KERNEL(k3)
ORACLE_KERNEL(k4)
ORACLE_KERNEL(k5)
ORACLE_KERNEL(k6)
ORACLE_KERNEL(k7)
ORACLE_KERNEL(k8)
ORACLE_KERNEL(k9)
ORACLE_KERNEL(k10)
ORACLE_KERNEL(k11)
ORACLE_KERNEL(k12)
ORACLE_KERNEL(k13)
ORACLE_KERNEL(k14)
ORACLE_KERNEL(k15)

LG_KERNEL_TABLE(LG_ENTRY(k0), LG_ENTRY(k1), LG_ENTRY(k2), LG_ENTRY(k3), LG_ENTRY(k4), LG_ENTRY(k5), LG_ENTRY(k6), LG_ENTRY(k7), LG_ENTRY(k8), LG_ENTRY(k9),
                LG_ENTRY(k10), LG_ENTRY(k11), LG_ENTRY(k12), LG_ENTRY(k13), LG_ENTRY(k14), LG_ENTRY(k15));
