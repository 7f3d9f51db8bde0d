// The allocation table: which addresses are device memory, pinned host memory, managed memory or a module's global.
// Device memory is host memory; only the table distinguishes them.
#pragma once

#include <cstdint>

#include "context.hpp"

namespace lgsim {

enum class Memory { device, host, registered, managed, global, opened };

struct Allocation {
  uintptr_t base = 0;
  size_t bytes = 0;
  Memory kind = Memory::device;
  unsigned flags = 0;
  Context *context = nullptr;
  uint64_t id = 0;
  CUmemoryPool pool = nullptr;  // of what was allocated in a stream
  int file = -1;                // of what has a handle for other processes
};

void add_allocation(const Allocation &allocation);
bool remove_allocation(uintptr_t base, Allocation &removed);
bool find_allocation(uintptr_t address, Allocation &found);
// Makes device memory of 64 KiB or more a mapping of a file, in its place. Nothing may be at work there meanwhile.
bool share_allocation(uintptr_t address, Allocation &shared);
// True when [address, address + bytes) lies in one allocation that a device can reach.
bool device_reaches(uintptr_t address, size_t bytes);
void free_context_memory(Context &context);

// In pool.cpp.
CUresult check_pool(CUmemoryPool handle);
// How much a pool may hold, in bytes; 0 without a limit.
size_t most_bytes_of(CUmemoryPool handle);
CUmemoryPool current_pool();

constexpr uint64_t kDeviceBytes = 141ull << 30;
// Device memory that neither allocations take, nor loaded code, nor local memory.
uint64_t free_device_bytes();
// Device memory that loaded code takes.
void count_code(int64_t bytes);

}  // namespace lgsim
