// Where the ranks of communicators meet: memory without a name in any file system, which ends with its processes, so that a killed job
// leaves nothing behind.
//
// The process that makes a unique id makes the memory, and the id says where it is among that process's descriptors. A communicator has a
// part of it, and so have those that are split off: the first rank that needs a part takes the next free one.
//
// Must not: wait without asking whether the communicator was aborted, nor call the CUDA driver.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nccl.h"
#include "nccl_work.h"

namespace simnccl {

// What a rank has said of its next split of a communicator.
struct Choice {
  std::atomic<uint32_t> split;  // the number of the split that this is for; the first is 1
  int32_t color, key;
};

// One communicator's part.
class Meeting {
 public:
  Meeting(void* memory, unsigned ranks);
  static size_t bytes(unsigned ranks);

  void* memory() const { return memory_; }
  NcclMember* members() const { return members_; }
  unsigned long long* sent() const { return sent_; }
  unsigned long long* received() const { return sent_ + ranks_ * ranks_; }
  // A split has its number's; as many splits may overlap as collectives: see kernels/nccl.cu.
  Choice& choice(uint32_t split, unsigned rank) const { return choices_[(split & 1) * ranks_ + rank]; }
  // The part of the communicator of a color, where the color's first rank is this one.
  std::atomic<uint64_t>& part(uint32_t split, unsigned first) const { return parts_[(split & 1) * ranks_ + first]; }

  // False where the rank has come before.
  bool arrive(unsigned rank) const;
  bool all_have_arrived() const;

 private:
  void* memory_;
  unsigned ranks_;
  NcclMember* members_;
  unsigned long long* sent_;
  Choice* choices_;
  std::atomic<uint64_t>* parts_;
};

class Memory {
 public:
  // Makes memory and the id that leads to it.
  static ncclResult_t make(ncclUniqueId& id);
  // Null where the process that made the id has ended, or the id is none.
  static std::shared_ptr<Memory> open(const ncclUniqueId& id);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Where the communicator of all ranks is; 0 where another rank has said another number of ranks.
  uint64_t first_part(unsigned ranks);
  // Where the communicator is that this rank or another one has found a place for under `known`, which belongs to split `number`.
  uint64_t part(std::atomic<uint64_t>& known, uint32_t number, unsigned ranks);
  // It stays mapped for good. Null where there is no memory.
  std::unique_ptr<Meeting> map(uint64_t part, unsigned ranks) const;
  // All ranks have come: the descriptor is no longer needed if this process made it.
  void close_original() const;

 private:
  struct Header;
  Memory(int file, Header* header) : file_(file), header_(header) {}
  uint64_t take(unsigned ranks);

  int file_;
  Header* header_;
};

// Waits in the calling thread. False where `is_aborted` became true first.
bool wait_until(const std::function<bool()>& is_true, const std::function<bool()>& is_aborted);

}  // namespace simnccl
