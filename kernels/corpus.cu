// Kernels of the corpus of hangs: each is named for what it does, because its name is what a report has to say.
#include "busy.h"

// The persistent kernel: runs until the word is no longer 0.
LG_KERNEL void spin_until(volatile int* flag) {
  while (*flag == 0) LG_PAUSE();
}

// The same in every block, launched with a grid that leaves no other kernel a place.
LG_KERNEL void fill_and_spin(volatile int* flag) {
  while (*flag == 0) LG_PAUSE();
}

// A consumer: reads what a producer publishes.
LG_KERNEL void consume(volatile unsigned* word, unsigned value) {
  while (*word != value) LG_PAUSE();
}

// A collective by its name: it ends when all ranks have joined the one of this number, which the host counts in their place.
LG_KERNEL void ncclDevKernel_AllReduce_Sum_f32_RING_LL(volatile unsigned* joined, unsigned number) {
  while (*joined < number) LG_PAUSE();
}

// Collectives between processes: each rank has a counter, and such a kernel ends when all of them have reached its number.
__device__ inline void lg_meet(volatile unsigned* joined, unsigned rank, unsigned ranks, unsigned number) {
  joined[rank] = number;
  __threadfence_system();
  for (unsigned peer = 0; peer < ranks; ++peer) {
    while (joined[peer] < number) LG_PAUSE();
  }
}

LG_KERNEL void ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(volatile unsigned* joined, unsigned rank, unsigned ranks, unsigned number) {
  lg_meet(joined, rank, ranks, number);
}

LG_KERNEL void ncclDevKernel_AllGather_RING_LL(volatile unsigned* joined, unsigned rank, unsigned ranks, unsigned number) {
  lg_meet(joined, rank, ranks, number);
}

// A grid of each rank that waits for the grids of the others, and is no collective by its name.
LG_KERNEL void dispatch(volatile unsigned* launched, unsigned rank, unsigned ranks, unsigned number) {
  lg_meet(launched, rank, ranks, number);
}

// A producer that takes its time.
LG_KERNEL void publish(volatile unsigned* word, unsigned value, unsigned long long nanoseconds) {
  lg_busy(nanoseconds);
  __threadfence_system();
  *word = value;
}

LG_KERNEL void busy_for(unsigned long long nanoseconds) { lg_busy(nanoseconds); }

LG_KERNEL void step(int* counter) { *counter += 1; }

LG_KERNEL void set_flag(volatile int* flag) { *flag = 1; }

// Needs 32 KB of local memory a thread on a device: more than a context has at first.
LG_KERNEL void many_locals(int* p, int n) {
  volatile int a[8192];
  for (int i = 0; i < n; i++) a[(i * 7919) & 8191] = i * p[0];
  int s = 0;
  for (int i = 0; i < n; i++) s += a[(i * 7919) & 8191];
  p[0] = s;
}

LG_KERNEL_TABLE(LG_ENTRY(spin_until), LG_ENTRY(fill_and_spin), LG_ENTRY(consume),
                LG_ENTRY(ncclDevKernel_AllReduce_Sum_f32_RING_LL),
                LG_ENTRY(ncclDevKernel_ReduceScatter_Sum_f32_RING_LL), LG_ENTRY(ncclDevKernel_AllGather_RING_LL), LG_ENTRY(dispatch), LG_ENTRY(publish), LG_ENTRY(busy_for), LG_ENTRY(step),
                LG_ENTRY(set_flag), LG_ENTRY(many_locals, .local_bytes = 32768));
