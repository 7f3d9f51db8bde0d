// The kernels of the ground-truth probes: what the conformance program, and most test programs, launch.
//
// spin never ends by itself: it is the work in flight. warm is the innocent kernel. cold10 to cold199 are for being loaded
// late; each has a body of its own so that no compiler folds two of them into one.
#include "portable.h"

LG_KERNEL void spin(volatile int *flag) {
  while (*flag == 0) {
    LG_PAUSE();
  }
}

LG_KERNEL void warm(int *p) {
  if (p) p[0] += 1;
}

LG_KERNEL void setflag(volatile int *p) { p[0] = 1; }

// Needs 32 KB of local memory a thread on a device: more than a context has at first.
LG_KERNEL void bigstack(int *p, int n) {
  volatile int a[8192];
  for (int i = 0; i < n; i++) a[(i * 7919) & 8191] = i * p[0];
  int s = 0;
  for (int i = 0; i < n; i++) s += a[(i * 7919) & 8191];
  p[0] = s;
}

LG_KERNEL void withprintf(int *p) {
  if (p[0] == 123456) printf("x %d\n", p[0]);
}

#define COLD(n) \
  LG_KERNEL void cold##n(int *p) { p[0] += n * 3 + (p[1] ^ n); }
#define TEN(M, n) M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7) M(n##8) M(n##9)
#define ALL_COLD(M)                                                                                              \
  TEN(M, 1) TEN(M, 2) TEN(M, 3) TEN(M, 4) TEN(M, 5) TEN(M, 6) TEN(M, 7) TEN(M, 8) TEN(M, 9) TEN(M, 10) TEN(M, 11) \
  TEN(M, 12) TEN(M, 13) TEN(M, 14) TEN(M, 15) TEN(M, 16) TEN(M, 17) TEN(M, 18) TEN(M, 19)
ALL_COLD(COLD)

#define COLD_ENTRY(n) LG_ENTRY(cold##n),
LG_KERNEL_TABLE(ALL_COLD(COLD_ENTRY) LG_ENTRY(spin), LG_ENTRY(warm), LG_ENTRY(setflag),
                LG_ENTRY(bigstack, .local_bytes = 32768), LG_ENTRY(withprintf, .uses_printf = true))
