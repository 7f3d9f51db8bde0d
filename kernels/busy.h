// A kernel body that lasts a given time, on the card and on the host. Must not be used to order anything: it only makes work last.
#pragma once
#include "portable.h"
#ifndef __CUDACC__
#include <time.h>
#endif

__device__ inline unsigned long long lg_now_ns() {
#ifdef __CUDACC__
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
#else
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<unsigned long long>(t.tv_sec) * 1000000000ull + static_cast<unsigned long long>(t.tv_nsec);
#endif
}

__device__ inline void lg_busy(unsigned long long nanoseconds) {
  const unsigned long long until = lg_now_ns() + nanoseconds;
  while (lg_now_ns() < until) LG_PAUSE();
}
