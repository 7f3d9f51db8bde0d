#include "comm.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <map>

namespace simnccl {
namespace {

thread_local std::string last;

constexpr const char* kKernels[] = {
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
    "ncclDevKernel_Broadcast_RING_LL",         "ncclDevKernel_Reduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv"};
using Kernels = std::array<CUfunction, std::size(kKernels)>;

struct Loaded {
  std::mutex mutex;
  std::map<CUcontext, Kernels> kernels;
};
// Never destroyed: other threads may use it while the process exits.
Loaded& loaded() {
  static Loaded* const made = new Loaded;
  return *made;
}

// The kernels are beside the library: ../kernels/nccl.host.so for the simulated driver, ../kernels/nccl.fatbin for a card.
std::vector<char> image(CUdevice device) {
  char name[256] = "";
  cuDeviceGetName(name, sizeof name, device);
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&image), &self);
  std::string path = self.dli_fname == nullptr ? "" : self.dli_fname;
  const size_t folder = path.rfind('/');
  path = (folder == std::string::npos ? "." : path.substr(0, folder)) + "/../kernels/nccl";
  path += std::string(name).rfind("Simulated", 0) == 0 ? ".host.so" : ".fatbin";
  std::vector<char> bytes;
  FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return bytes;
  char chunk[65536];
  for (size_t n; (n = std::fread(chunk, 1, sizeof chunk, file)) > 0;) bytes.insert(bytes.end(), chunk, chunk + n);
  std::fclose(file);
  return bytes;
}

CUresult load(CUcontext context, CUdevice device) {
  std::lock_guard<std::mutex> hold(loaded().mutex);
  if (loaded().kernels.count(context) != 0) return CUDA_SUCCESS;
  const std::vector<char> bytes = image(device);
  CUmodule module = nullptr;
  CUresult r = bytes.empty() ? CUDA_ERROR_FILE_NOT_FOUND : cuModuleLoadData(&module, bytes.data());
  Kernels found{};
  for (size_t i = 0; i < found.size() && r == CUDA_SUCCESS; ++i) r = cuModuleGetFunction(&found[i], module, kKernels[i]);
  if (r == CUDA_SUCCESS) loaded().kernels[context] = found;
  return r;
}

}  // namespace

const char* last_error() { return last.c_str(); }

ncclResult_t failed(ncclResult_t result, const std::string& why) {
  last = why;
  return result;
}

ncclResult_t failed(CUresult result, const char* call) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "an unknown error";
  return failed(ncclUnhandledCudaError, std::string(call) + ": " + name);
}

InContext::InContext(CUcontext context) {
  CUcontext current = nullptr;
  if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return;
  result = cuCtxPushCurrent(context);
  pushed_ = result == CUDA_SUCCESS;
}

InContext::~InContext() {
  CUcontext popped = nullptr;
  if (pushed_) cuCtxPopCurrent(&popped);
}

CUfunction kernel(CUcontext context, Kind kind) {
  std::lock_guard<std::mutex> hold(loaded().mutex);
  return loaded().kernels.at(context)[static_cast<size_t>(kind)];
}

ncclResult_t new_comm(ncclComm*& comm) {
  CUresult r = cuInit(0);
  if (r != CUDA_SUCCESS) return failed(r, "cuInit");
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  if (context == nullptr) {
    r = cuDevicePrimaryCtxRetain(&context, 0);
    if (r == CUDA_SUCCESS) r = cuCtxSetCurrent(context);
    if (r != CUDA_SUCCESS) return failed(r, "cuDevicePrimaryCtxRetain");
  }
  CUdevice device = 0;
  r = cuCtxGetDevice(&device);
  if (r != CUDA_SUCCESS) return failed(r, "cuCtxGetDevice");
  r = load(context, device);
  if (r != CUDA_SUCCESS) return failed(r, "cuModuleLoadData");
  auto made = std::make_unique<ncclComm>();
  made->context = context;
  made->device = device;
  r = cuStreamCreate(&made->own, CU_STREAM_NON_BLOCKING);
  if (r == CUDA_SUCCESS) r = cuEventCreate(&made->event, CU_EVENT_DISABLE_TIMING);
  if (r != CUDA_SUCCESS) return failed(r, "cuStreamCreate");
  comm = made.release();
  return ncclSuccess;
}

ncclResult_t Making::say() {
  if (parent_ == nullptr) {
    comm_->memory = Memory::open(id_);
    return comm_->memory ? ncclSuccess : failed(ncclSystemError, "the process that made the unique id is gone");
  }
  std::lock_guard<std::mutex> hold(parent_->mutex);
  split_ = ++parent_->splits;
  Choice& choice = parent_->meeting->choice(split_, parent_->rank);
  choice.color = color_;
  choice.key = key_;
  choice.split.store(split_, std::memory_order_release);  // with the load in find_ranks
  return ncclSuccess;
}

// Who is in this part of a split, which takes the choices of all ranks.
ncclResult_t Making::find_ranks(uint64_t& part) {
  const Meeting& meeting = *parent_->meeting;
  const auto has_chosen = [&](unsigned rank) { return meeting.choice(split_, rank).split.load(std::memory_order_acquire) == split_; };
  unsigned chosen = 0;
  const auto all_have_chosen = [&] {
    while (chosen < parent_->ranks && has_chosen(chosen)) ++chosen;
    return chosen == parent_->ranks;
  };
  if (!wait_until(all_have_chosen, [&] { return parent_->aborted || (comm_ != nullptr && comm_->aborted); }))
    return failed(ncclInternalError, "the communicator was aborted");
  if (comm_ == nullptr) return ncclSuccess;
  std::vector<std::pair<int, unsigned>> members;
  for (unsigned rank = 0; rank < parent_->ranks; ++rank) {
    const Choice& choice = meeting.choice(split_, rank);
    if (choice.color == color_) members.emplace_back(choice.key, rank);
  }
  const unsigned first = members.front().second;
  std::sort(members.begin(), members.end());
  const auto self = std::find_if(members.begin(), members.end(), [&](const auto& one) { return one.second == parent_->rank; });
  comm_->ranks = static_cast<unsigned>(members.size());
  comm_->rank = static_cast<unsigned>(self - members.begin());
  comm_->memory = parent_->memory;
  part = comm_->memory->part(meeting.part(split_, first), split_, comm_->ranks);
  return ncclSuccess;
}

ncclResult_t Making::arrive() {
  uint64_t part = 0;
  if (parent_ != nullptr) {
    const ncclResult_t result = find_ranks(part);
    if (result != ncclSuccess || comm_ == nullptr) return result;
  } else {
    part = comm_->memory->first_part(comm_->ranks);
    if (part == 0) return failed(ncclInvalidUsage, "ranks differ in the number of ranks");
  }
  comm_->meeting = comm_->memory->map(part, comm_->ranks);
  if (!comm_->meeting) return failed(ncclSystemError, "mmap");
  comm_->sent.resize(comm_->ranks);
  comm_->received.resize(comm_->ranks);
  InContext context(comm_->context);
  CUresult r = context.result;
  void* memory = comm_->meeting->memory();
  if (r == CUDA_SUCCESS) r = cuMemHostRegister(memory, Meeting::bytes(comm_->ranks), CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
  if (r == CUDA_SUCCESS) r = cuMemHostGetDevicePointer(&comm_->shared, memory, 0);
  if (r != CUDA_SUCCESS) return failed(r, "cuMemHostRegister");
  if (!comm_->meeting->arrive(comm_->rank)) return failed(ncclInvalidUsage, "two ranks have the same number");
  return ncclSuccess;
}

ncclResult_t Making::wait() {
  if (comm_ == nullptr) return ncclSuccess;
  if (!wait_until([&] { return comm_->meeting->all_have_arrived(); }, [&] { return comm_->aborted.load(); }))
    return failed(ncclInternalError, "the communicator was aborted");
  if (parent_ == nullptr) comm_->memory->close_original();
  return ncclSuccess;
}

ncclResult_t make(std::vector<Making>& all) {
  ncclResult_t result = ncclSuccess;
  for (ncclResult_t (Making::*step)() : {&Making::say, &Making::arrive, &Making::wait}) {
    for (Making& one : all) {
      if (result == ncclSuccess) result = (one.*step)();
    }
  }
  for (Making& one : all) {
    if (one.comm() != nullptr) one.comm()->state = result;
    if (one.parent() != nullptr) one.parent()->state = ncclSuccess;
  }
  return result;
}

ncclResult_t drain(ncclComm& comm) {
  const CUresult r = cuStreamSynchronize(comm.own);
  return r == CUDA_SUCCESS ? ncclSuccess : failed(r, "cuStreamSynchronize");
}

}  // namespace simnccl
