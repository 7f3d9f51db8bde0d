// The kernels of the simulated NCCL. Each waits for the kernels of its peers as NCCL's do. A sum of floats sums the first element, if all
// ranks come; no other data is moved.
//
// Two signatures and values a rank are enough: a rank writes those of kernel n + 2 once its kernel n + 1 has ended, thus after all peers have launched
// n + 1, and with it ended n.
#include "nccl_work.h"
#include "portable.h"

// Waits longer each time, up to a millisecond: dozens of ranks wait on the processors of one machine.
__device__ inline bool lg_still_waits(const NcclWork& work, unsigned& nanoseconds) {
  if (work.members[work.rank].aborted) return false;
  __nanosleep(nanoseconds);
  if (nanoseconds < 640 * 1000) nanoseconds += nanoseconds / 2;
  return true;
}

__device__ inline bool lg_has_joined(const NcclWork& work, unsigned peer) {
  volatile NcclMember& member = work.members[peer];
  if (member.joined < work.number) return false;
  __threadfence_system();
  return member.signatures[work.number & 1] == work.signature;
}

__device__ inline void lg_collective(const NcclWork& work) {
  volatile NcclMember& own = work.members[work.rank];
  own.signatures[work.number & 1] = work.signature;
  if (work.send != nullptr) own.values[work.number & 1] = *work.send;
  __threadfence_system();
  own.joined = work.number;
  unsigned nanoseconds = 20 * 1000;
  for (unsigned peer = 0; peer < work.ranks; ++peer) {
    while (!lg_has_joined(work, peer)) {
      if (lg_still_waits(work, nanoseconds)) continue;
      // Peers that come later wait for what this rank does not pass on any more.
      own.joined = work.number - 1;
      return;
    }
  }
  if (work.send == nullptr) return;
  float sum = 0;
  for (unsigned peer = 0; peer < work.ranks; ++peer) sum += static_cast<volatile NcclMember&>(work.members[peer]).values[work.number & 1];
  *work.receive = sum;
}

// All transfers of a kernel progress together, so each is announced before the first is waited for.
__device__ inline void lg_transfers(const NcclWork& work) {
  for (unsigned i = 0; i < work.transfers; ++i) {
    const NcclTransfer& one = work.transfer[i];
    if (one.sends) work.sent[work.rank * work.ranks + one.peer] = one.bytes;
    else work.received[one.peer * work.ranks + work.rank] = one.bytes;
  }
  __threadfence_system();
  unsigned nanoseconds = 20 * 1000;
  for (unsigned i = 0; i < work.transfers; ++i) {
    const NcclTransfer& one = work.transfer[i];
    volatile unsigned long long& peers =
        one.sends ? work.received[work.rank * work.ranks + one.peer] : work.sent[one.peer * work.ranks + work.rank];
    while (peers < one.bytes) {
      if (!lg_still_waits(work, nanoseconds)) return;
    }
  }
}

LG_KERNEL void ncclDevKernel_AllReduce_Sum_f32_RING_LL(NcclWork work) { lg_collective(work); }
LG_KERNEL void ncclDevKernel_AllGather_RING_LL(NcclWork work) { lg_collective(work); }
LG_KERNEL void ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(NcclWork work) { lg_collective(work); }
LG_KERNEL void ncclDevKernel_Broadcast_RING_LL(NcclWork work) { lg_collective(work); }
LG_KERNEL void ncclDevKernel_Reduce_Sum_f32_RING_LL(NcclWork work) { lg_collective(work); }
LG_KERNEL void ncclDevKernel_SendRecv(NcclWork work) { lg_transfers(work); }

LG_KERNEL_TABLE(LG_ENTRY(ncclDevKernel_AllReduce_Sum_f32_RING_LL), LG_ENTRY(ncclDevKernel_AllGather_RING_LL),
                LG_ENTRY(ncclDevKernel_ReduceScatter_Sum_f32_RING_LL), LG_ENTRY(ncclDevKernel_Broadcast_RING_LL),
                LG_ENTRY(ncclDevKernel_Reduce_Sum_f32_RING_LL), LG_ENTRY(ncclDevKernel_SendRecv));
