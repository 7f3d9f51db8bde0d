// What a thread has asked for between ncclGroupStart and ncclGroupEnd, and how it is launched at the end of the outermost group.
//
// A call without a group is a group of its own. Of each communicator, the collectives on one stream are one kernel, and the sends and
// receives on one stream another.
//
// Must not: be used by two threads; a group is its thread's.
#pragma once
#include "comm.hpp"

namespace simnccl {

// A collective, a send or a receive.
struct Task {
  ncclComm* comm;
  CUstream stream;
  Kind kind;
  size_t count;
  ncclDataType_t type;
  int op;    // of a reduction
  int peer;  // of a transfer, and the root of a broadcast or a reduction
  bool sends;
  const void* from = nullptr;  // of a sum of floats
  void* to = nullptr;
};

class Group {
 public:
  static Group& of_thread();

  void start() { ++depth_; }
  ncclResult_t end();
  ncclResult_t add(const Task& task);
  ncclResult_t add(const Making& making);
  bool is_open() const { return depth_ > 0; }
  // A call of the group has failed, so nothing of it is launched.
  ncclResult_t fail(ncclResult_t result);

 private:
  ncclResult_t begin_to_make();
  ncclResult_t launch();

  unsigned depth_ = 0;
  ncclResult_t failure_ = ncclSuccess;
  std::vector<Task> tasks_;
  std::vector<Making> making_;
};

}  // namespace simnccl
