// What the simulated NCCL (testapps/simnccl) and its kernels share: a communicator's counters in memory that all ranks map, and the
// parameter of a kernel. Plain data, because the two sides are separate objects.
#ifndef LAZYGUARD_NCCL_WORK_H
#define LAZYGUARD_NCCL_WORK_H

// Of one rank, in a cache line of its own. Its kernels write `joined` and `signatures`.
struct NcclMember {
  unsigned long long joined;         // the number of its last collective kernel; the first is 1
  unsigned long long signatures[2];  // of its kernels with an even and with an odd number
  unsigned arrived;                  // the rank has come to the initialization of the communicator
  unsigned aborted;                  // the rank's kernels end without their peers
  float values[2];                   // what its sums with an even and with an odd number add
  unsigned long long unused[3];
};
static_assert(sizeof(NcclMember) == 64, "a cache line");

// A send or a receive.
struct NcclTransfer {
  unsigned long long bytes;  // to or from this peer since the communicator was made, this transfer included
  unsigned peer;
  unsigned sends;
};

constexpr unsigned kMostTransfers = 240;

struct NcclWork {
  volatile NcclMember* members;
  volatile unsigned long long *sent, *received;  // [from * ranks + to]: the bytes that kernels have sent, and are ready to receive
  unsigned rank, ranks;
  unsigned long long number;     // among the communicator's collective kernels; 0: none, these are transfers
  unsigned long long signature;  // of what the kernel does: equal in all ranks, or it never ends
  const float* send;             // of a sum of floats, whose first element is summed; null: no data is moved
  float* receive;
  unsigned transfers;
  NcclTransfer transfer[kMostTransfers];
};
static_assert(sizeof(NcclWork) <= 4096, "the parameters of a kernel");

#endif
