// One rank of a job that uses NCCL. The programs in this folder's parent differ in how they come to the library.
#pragma once
#include "nccl.h"

#define LG_NCCL_FUNCTIONS(X)                                                                                             \
  X(GetVersion) X(GetUniqueId) X(CommInitRank) X(CommSplit) X(CommDestroy) X(GetErrorString) X(AllReduce) X(AllGather) \
  X(ReduceScatter) X(Broadcast) X(Reduce) X(Send) X(Recv) X(GroupStart) X(GroupEnd)

namespace lg {

struct Nccl {
#define LG_POINTER(name) decltype(&nccl##name) name;
  LG_NCCL_FUNCTIONS(LG_POINTER)
#undef LG_POINTER
};

// The main function of such a program.
int nccl_job(const Nccl& nccl, int count, char** arguments);

}  // namespace lg
