#include "group.hpp"

#include <algorithm>
#include <thread>

namespace simnccl {
namespace {

constexpr unsigned long long kBytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

// FNV-1a.
void mix(unsigned long long& hash, unsigned long long value) {
  for (unsigned byte = 0; byte < 8; ++byte) hash = (hash ^ (value >> 8 * byte & 0xff)) * 0x100000001b3;
}

template <class T>
T* in(ncclComm& comm, T* shared) {
  const auto offset = reinterpret_cast<const char*>(shared) - static_cast<const char*>(comm.meeting->memory());
  return reinterpret_cast<T*>(comm.shared + static_cast<CUdeviceptr>(offset));
}

NcclWork work_of(ncclComm& comm) {
  NcclWork work{};
  work.members = in(comm, comm.meeting->members());
  work.sent = in(comm, comm.meeting->sent());
  work.received = in(comm, comm.meeting->received());
  work.rank = comm.rank;
  work.ranks = comm.ranks;
  return work;
}

CUresult launch_kernel(ncclComm& comm, CUstream stream, Kind kind, NcclWork& work) {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  void* parameters[] = {&work, nullptr};
  CUresult r = cuEventRecord(comm.event, comm.own);
  if (r == CUDA_SUCCESS) r = cuStreamWaitEvent(stream, comm.event, 0);
  if (r == CUDA_SUCCESS) r = cuLaunchKernelEx(&config, kernel(comm.context, kind), parameters, nullptr);
  if (r == CUDA_SUCCESS) r = cuEventRecord(comm.event, stream);
  if (r == CUDA_SUCCESS) r = cuStreamWaitEvent(comm.own, comm.event, 0);
  return r;
}

// Tasks of one communicator and one stream: collectives, or transfers.
ncclResult_t launch_together(const std::vector<Task>& tasks) {
  ncclComm& comm = *tasks.front().comm;
  const Kind kind = tasks.front().kind;
  // The collectives of a single rank are copies; to move data is not this library's task.
  if (kind != Kind::transfer && comm.ranks == 1) return ncclSuccess;
  if (kind == Kind::transfer && tasks.size() > kMostTransfers) return failed(ncclInvalidUsage, "too many sends and receives in a group");
  std::lock_guard<std::mutex> hold(comm.mutex);
  NcclWork work = work_of(comm);
  if (kind == Kind::transfer) {
    for (const Task& task : tasks) {
      const auto peer = static_cast<unsigned>(task.peer);
      auto& bytes = task.sends ? comm.sent[peer] : comm.received[peer];
      bytes += task.count * kBytes[task.type];
      work.transfer[work.transfers++] = {bytes, peer, task.sends};
    }
  } else {
    work.number = ++comm.kernels;
    const Task& task = tasks.front();
    // Of several sums in a group none is made: a kernel has room for one.
    if (tasks.size() == 1 && task.kind == Kind::all_reduce && task.type == ncclFloat32 && task.op == ncclSum && task.from != nullptr) {
      work.send = static_cast<const float*>(task.from);
      work.receive = static_cast<float*>(task.to);
    }
    work.signature = 0xcbf29ce484222325;
    for (const Task& task : tasks) {
      for (unsigned long long value : {static_cast<unsigned long long>(task.kind), static_cast<unsigned long long>(task.count),
                                       static_cast<unsigned long long>(task.type), static_cast<unsigned long long>(task.op),
                                       static_cast<unsigned long long>(task.peer)})
        mix(work.signature, value);
    }
  }
  InContext context(comm.context);
  if (context.result != CUDA_SUCCESS) return failed(context.result, "cuCtxPushCurrent");
  const CUresult r = launch_kernel(comm, tasks.front().stream, kind, work);
  return r == CUDA_SUCCESS ? ncclSuccess : failed(r, "cuLaunchKernelEx");
}

}  // namespace

Group& Group::of_thread() {
  static thread_local Group group;
  return group;
}

ncclResult_t Group::fail(ncclResult_t result) {
  if (is_open() && failure_ == ncclSuccess) failure_ = result;
  return result;
}

ncclResult_t Group::add(const Task& task) {
  start();
  tasks_.push_back(task);
  return end();
}

ncclResult_t Group::add(const Making& making) {
  start();
  making_.push_back(making);
  return end();
}

ncclResult_t Group::end() {
  if (depth_ == 0) return failed(ncclInvalidUsage, "no group is open");
  if (--depth_ > 0) return ncclSuccess;
  ncclResult_t result = failure_;
  failure_ = ncclSuccess;
  if (result == ncclSuccess) result = begin_to_make();
  if (result == ncclSuccess || result == ncclInProgress) {
    const ncclResult_t launched = launch();
    if (launched != ncclSuccess) result = launched;
  }
  tasks_.clear();
  making_.clear();
  return result;
}

ncclResult_t Group::begin_to_make() {
  if (making_.empty()) return ncclSuccess;
  const bool blocking = std::all_of(making_.begin(), making_.end(), [](const Making& one) {
    return one.comm() == nullptr ? one.parent()->blocking : one.comm()->blocking;
  });
  if (blocking) return make(making_);
  std::thread([all = making_]() mutable { make(all); }).detach();
  return ncclInProgress;
}

ncclResult_t Group::launch() {
  std::vector<std::vector<Task>> kernels;
  for (const bool transfers : {false, true}) {
    for (const Task& task : tasks_) {
      if ((task.kind == Kind::transfer) != transfers) continue;
      const auto joins = [&](const std::vector<Task>& kernel) {
        const Task& first = kernel.front();
        return first.comm == task.comm && first.stream == task.stream && (first.kind == Kind::transfer) == transfers;
      };
      const auto kernel = std::find_if(kernels.begin(), kernels.end(), joins);
      if (kernel == kernels.end()) kernels.push_back({task});
      else kernel->push_back(task);
    }
  }
  for (const std::vector<Task>& kernel : kernels) {
    const ncclResult_t result = launch_together(kernel);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

}  // namespace simnccl
