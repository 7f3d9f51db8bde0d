// The kernel of the corpus that prints: a module with such a kernel changes what a context's first launch does, so it has one of its own.
#include "portable.h"

LG_KERNEL void prints(int* p) {
  if (p[0] == 123456) printf("counter %d\n", p[0]);
  p[0] += 1;
}

LG_KERNEL_TABLE(LG_ENTRY(prints, .uses_printf = true));
