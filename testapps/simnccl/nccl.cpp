// The exports. As in NCCL, each is also there as pncclNAME, and one that does another one's work calls it as a program would: ncclBcast
// calls ncclBroadcast, ncclCommInitAll calls ncclGetUniqueId.
#include <unistd.h>

#include <cstdlib>

#include "group.hpp"

using namespace simnccl;

#define EXPORT(result, name, ...)                                                                              \
  extern "C" __attribute__((visibility("default"), alias(#name))) result p##name(__VA_ARGS__);                 \
  extern "C" __attribute__((visibility("default"))) result name(__VA_ARGS__)

namespace {

ncclResult_t invalid(const char* what) { return Group::of_thread().fail(failed(ncclInvalidArgument, what)); }

ncclResult_t apply(const ncclConfig_t* config, bool& blocking) {
  if (config == nullptr) return ncclSuccess;
  // Older programs have a shorter one; all have `blocking`.
  if (config->size < offsetof(ncclConfig_t, cgaClusterSize) || config->magic != NCCL_API_MAGIC) return invalid("the configuration is not initialized");
  if (config->blocking == 0 || config->blocking == 1) blocking = config->blocking == 1;
  else if (config->blocking != NCCL_CONFIG_UNDEF_INT) return invalid("blocking is neither 0 nor 1");
  return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return invalid("the rank or the number of ranks");
  bool blocking = true;
  ncclResult_t result = apply(config, blocking);
  if (result != ncclSuccess) return result;
  ncclComm* made = nullptr;
  result = new_comm(made);
  if (result != ncclSuccess) return Group::of_thread().fail(result);
  made->rank = static_cast<unsigned>(rank);
  made->ranks = static_cast<unsigned>(ranks);
  made->blocking = blocking;
  *comm = made;
  return Group::of_thread().add(Making(made, id));
}

ncclResult_t add(const Task& task) {
  if (task.comm == nullptr || task.type < 0 || task.type >= ncclNumTypes || task.op < 0 || task.op >= ncclNumOps) return invalid("the communicator, the type or the operation");
  if (task.comm->state != ncclSuccess) return Group::of_thread().fail(failed(ncclInvalidUsage, "the communicator is not ready"));
  if (task.peer < 0 || static_cast<unsigned>(task.peer) >= task.comm->ranks) return invalid("the peer or root is no rank of the communicator");
  return Group::of_thread().add(task);
}

template <class T, class From>
ncclResult_t say(T* out, const ncclComm* comm, From from) {
  if (out == nullptr || comm == nullptr) return invalid("the communicator");
  *out = static_cast<T>(from(*comm));
  return ncclSuccess;
}

// Kernels that have not ended keep using the memory, so it stays; the rest is small.
ncclResult_t destroy(ncclComm_t comm) {
  InContext context(comm->context);
  const ncclResult_t result = comm->state == ncclSuccess ? drain(*comm) : ncclSuccess;
  comm->state = ncclInvalidUsage;
  cuEventDestroy(comm->event);
  cuStreamDestroy(comm->own);
  return result;
}

}  // namespace

EXPORT(ncclResult_t, ncclGetVersion, int* version) {
  if (version == nullptr) return invalid("version");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

EXPORT(ncclResult_t, ncclGetUniqueId, ncclUniqueId* id) {
  if (id == nullptr) return invalid("id");
  const ncclResult_t result = Memory::make(*id);
  return result == ncclSuccess ? result : failed(result, "memfd_create");
}

EXPORT(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) { return init_rank(comm, ranks, id, rank, nullptr); }

EXPORT(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return init_rank(comm, ranks, id, rank, config);
}

// Unlike NCCL, it takes the same device more than once, since the simulated driver has but one.
EXPORT(ncclResult_t, ncclCommInitAll, ncclComm_t* comms, int devices, const int* list) {
  int there = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&there) != CUDA_SUCCESS) return failed(ncclUnhandledCudaError, "cuInit");
  if (comms == nullptr || devices < 1 || (list == nullptr && devices > there)) return invalid("the number of devices");
  ncclUniqueId id;
  ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return result;
  Group& group = Group::of_thread();
  group.start();
  for (int rank = 0; rank < devices; ++rank) {
    CUcontext context = nullptr;
    CUresult r = cuDevicePrimaryCtxRetain(&context, list == nullptr ? rank : list[rank]);
    if (r == CUDA_SUCCESS) r = cuCtxPushCurrent(context);
    if (r != CUDA_SUCCESS) {
      group.fail(failed(r, "cuDevicePrimaryCtxRetain"));
      break;
    }
    init_rank(&comms[rank], devices, id, rank, nullptr);
    cuCtxPopCurrent(&context);
  }
  return group.end();
}

EXPORT(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  if (comm == nullptr || child == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) return invalid("the communicator or the color");
  if (comm->state != ncclSuccess) return Group::of_thread().fail(failed(ncclInvalidUsage, "the communicator is not ready"));
  bool blocking = comm->blocking;
  ncclResult_t result = apply(config, blocking);
  if (result != ncclSuccess) return result;
  *child = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) {
    InContext context(comm->context);
    result = context.result == CUDA_SUCCESS ? new_comm(*child) : failed(context.result, "cuCtxPushCurrent");
    if (result != ncclSuccess) return Group::of_thread().fail(result);
    (*child)->blocking = blocking;
    (*child)->is_split = true;
  }
  if (!blocking) comm->state = ncclInProgress;
  return Group::of_thread().add(Making(*child, comm, color, key));
}

EXPORT(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  if (comm == nullptr || comm->state != ncclSuccess) return invalid("the communicator");
  InContext context(comm->context);
  return drain(*comm);
}

EXPORT(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return comm->revoked ? invalid("the communicator is revoked, and can only be aborted") : destroy(comm);
}

// It takes half a second, as NCCL's does. Kernels that wait end, and so does every later one; the memory holds what it held.
// With LGSIM_REVOKE_OF_SPLIT, one that a split made refuses.
EXPORT(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags) {
  if (comm == nullptr || flags != NCCL_REVOKE_DEFAULT) return invalid("the communicator or the flags");
  if (comm->state != ncclSuccess) return failed(ncclInvalidUsage, "the communicator is not ready");
  if (comm->is_split && std::getenv("LGSIM_REVOKE_OF_SPLIT") != nullptr) return failed(ncclInternalError, "the simulation refuses it");
  __atomic_store_n(&comm->meeting->members()[comm->rank].aborted, 1, __ATOMIC_RELEASE);
  usleep(500 * 1000);
  comm->revoked = true;
  comm->state = ncclInvalidUsage;
  return ncclSuccess;
}

EXPORT(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  comm->aborted = true;
  // One that is not made yet has a thread that notices, and then ends.
  wait_until([&] { return comm->state != ncclInProgress; }, [] { return false; });
  if (comm->meeting) __atomic_store_n(&comm->meeting->members()[comm->rank].aborted, 1, __ATOMIC_RELEASE);
  return destroy(comm);
}

EXPORT(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* error) {
  return say(error, comm, [](const ncclComm& of) { return of.state.load(); });
}
EXPORT(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* ranks) {
  return say(ranks, comm, [](const ncclComm& of) { return of.ranks; });
}
EXPORT(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return say(device, comm, [](const ncclComm& of) { return of.device; });
}
EXPORT(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return say(rank, comm, [](const ncclComm& of) { return of.rank; });
}

EXPORT(const char*, ncclGetErrorString, ncclResult_t result) {
  constexpr const char* kNames[ncclNumResults] = {"success",         "a CUDA call failed", "a system call failed", "an internal error",
                                                  "an invalid argument", "an invalid usage", "a peer failed",     "in progress"};
  return result >= 0 && result < ncclNumResults ? kNames[result] : "an unknown result";
}

EXPORT(const char*, ncclGetLastError, ncclComm_t) { return last_error(); }

EXPORT(ncclResult_t, ncclAllReduce, const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({comm, stream, Kind::all_reduce, count, type, op, 0, false, send, receive});
}
EXPORT(ncclResult_t, ncclBroadcast, const void*, void*, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return add({comm, stream, Kind::broadcast, count, type, 0, root, false});
}
EXPORT(ncclResult_t, ncclBcast, void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
EXPORT(ncclResult_t, ncclReduce, const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return add({comm, stream, Kind::reduce, count, type, op, root, false});
}
EXPORT(ncclResult_t, ncclAllGather, const void*, void*, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return add({comm, stream, Kind::all_gather, count, type, 0, 0, false});
}
EXPORT(ncclResult_t, ncclReduceScatter, const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({comm, stream, Kind::reduce_scatter, count, type, op, 0, false});
}
EXPORT(ncclResult_t, ncclSend, const void*, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add({comm, stream, Kind::transfer, count, type, 0, peer, true});
}
EXPORT(ncclResult_t, ncclRecv, void*, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add({comm, stream, Kind::transfer, count, type, 0, peer, false});
}

EXPORT(ncclResult_t, ncclGroupStart) {
  Group::of_thread().start();
  return ncclSuccess;
}
EXPORT(ncclResult_t, ncclGroupEnd) { return Group::of_thread().end(); }
