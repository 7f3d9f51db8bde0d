// A communicator of one rank, and how ranks come together to make one.
//
// Making one has three steps, so that a thread which makes several at once (in a group, as ncclCommInitAll does) takes each step for all
// of them before it waits: say what is wanted, find the memory and arrive, wait for the others.
//
// Must not: free what kernels may still use. Taking registered memory back from the driver waits for the whole context, which would make
// ncclCommAbort hang in another communicator's collective; so a communicator's memory stays.
#pragma once
#include <cuda.h>

#include <mutex>
#include <string>

#include "shared.hpp"

struct ncclComm {
  std::shared_ptr<simnccl::Memory> memory;
  std::unique_ptr<simnccl::Meeting> meeting;
  unsigned rank = 0, ranks = 0;
  bool blocking = true, is_split = false;
  CUcontext context = nullptr;
  CUdevice device = 0;

  // Around each kernel: `own` waits for it and it for what is on `own`, so that the kernels of a communicator run one at a time.
  CUstream own = nullptr;
  CUevent event = nullptr;
  CUdeviceptr shared = 0;  // the meeting, for kernels

  std::atomic<int> state{ncclInProgress};
  std::atomic<bool> aborted{false}, revoked{false};

  std::mutex mutex;  // of what follows
  unsigned long long kernels = 0;
  uint32_t splits = 0;
  std::vector<unsigned long long> sent, received;  // bytes, by peer
};

namespace simnccl {

// The result of a call, kept as the thread's last error where it is one.
ncclResult_t failed(ncclResult_t result, const std::string& why);
ncclResult_t failed(CUresult result, const char* call);
const char* last_error();

// The context of a communicator, current on the thread for a while.
class InContext {
 public:
  explicit InContext(CUcontext context);
  ~InContext();
  CUresult result = CUDA_SUCCESS;

 private:
  bool pushed_ = false;
};

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, reduce, transfer };
// Loaded when the context's first communicator was made.
CUfunction kernel(CUcontext context, Kind kind);

// A communicator that is being made.
class Making {
 public:
  Making(ncclComm* comm, const ncclUniqueId& id) : comm_(comm), id_(id) {}
  Making(ncclComm* comm, ncclComm* parent, int color, int key) : comm_(comm), parent_(parent), color_(color), key_(key) {}

  ncclResult_t say();
  ncclResult_t arrive();
  ncclResult_t wait();
  ncclComm* comm() const { return comm_; }
  ncclComm* parent() const { return parent_; }

 private:
  ncclResult_t find_ranks(uint64_t& part);

  ncclComm* comm_;  // null: a split that this rank is in no part of
  ncclUniqueId id_{};
  ncclComm* parent_ = nullptr;
  int color_ = 0, key_ = 0;
  uint32_t split_ = 0;
};

// Takes each step for all of them.
ncclResult_t make(std::vector<Making>& all);

// On the calling thread's context; without one, on the primary context of the first device.
ncclResult_t new_comm(ncclComm*& comm);
// Waits until the communicator's kernels have ended.
ncclResult_t drain(ncclComm& comm);

}  // namespace simnccl
