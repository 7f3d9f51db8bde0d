// What a kernel source compiled for the host hands to the simulated driver: one table a shared object, named lgsim_kernels.
//
// Both sides include this file: portable.h fills the table, the simulated driver reads it. It holds plain data and function
// pointers only, because the two sides are separate shared objects.
#ifndef LAZYGUARD_KERNEL_TABLE_H
#define LAZYGUARD_KERNEL_TABLE_H

#include <cstddef>

struct lgsim_dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct lgsim_grid {
  lgsim_dim3 grid, block;
};

// What the compiler would have found out about the device code. A kernel states what its host form cannot show.
struct lgsim_attributes {
  unsigned local_bytes = 0;          // per thread; more than the context has makes a launch grow local memory
  unsigned static_shared_bytes = 0;  // per block
  bool uses_printf = false;
  bool faults = false;               // its first instruction reads a bad address: the device raises an exception
  bool blocks_together = false;      // blocks wait for each other, so each needs a host thread of its own
  unsigned registers = 16;           // per thread
  unsigned max_threads = 1024;       // per block
};

struct lgsim_kernel {
  const char *name;  // null in the entry that ends the table
  // Runs `count` blocks from `first` on, one thread of the grid after the other. params[i] points at the i-th argument.
  void (*run)(const lgsim_grid &grid, size_t first, size_t count, void **params);
  unsigned parameter_count;
  const size_t *parameter_sizes;
  const size_t *parameter_offsets;  // as the device ABI lays them out: naturally aligned, in order
  lgsim_attributes attributes;
};

#define LGSIM_TABLE_SYMBOL "lgsim_kernels"

#endif
