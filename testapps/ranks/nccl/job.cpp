#include "job.hpp"

#include <cuda.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "image.hpp"
#include "program.hpp"
#include "session.hpp"
#include "shared.hpp"

#define NK(call) check_nccl((call), #call)

namespace lg {
namespace {

constexpr unsigned kMostRanks = 1024;
// More than a stream's queue takes.
constexpr unsigned kMany = 1200;
// After so many microseconds a kernel that has room has started.
constexpr useconds_t kKernelStarts = 200 * 1000;

// What the processes of the job share: the unique id, what a rank with the fault `load` keeps the others back by, and how far the grids of each have come.
struct Shared {
  std::atomic<bool> has_id, may_join;
  ncclUniqueId id;
  unsigned grids[kMostRanks];
};

// Less and less often: a rank that wakes a thousand times a second, and has to wait for a processor each time, seems to lack one.
void wait_for(const std::atomic<bool>& word) {
  for (useconds_t pause = 1000; !word; pause = pause < 200000 ? 2 * pause : pause) usleep(pause);
}

// Polls the events behind collectives, as PyTorch's watchdog does.
class Watchdog {
 public:
  explicit Watchdog(CUcontext context) : thread_([=] { poll(context); }) {}
  void watch(CUevent event) {
    std::lock_guard<std::mutex> hold(mutex_);
    events_.push_back(event);
  }
  void end() {
    ends_ = true;
    thread_.join();
  }

 private:
  void poll(CUcontext context) {
    CK(cuCtxSetCurrent(context));
    while (!ends_) {
      {
        std::lock_guard<std::mutex> hold(mutex_);
        while (!events_.empty() && cuEventQuery(events_.front()) == CUDA_SUCCESS) events_.erase(events_.begin());
      }
      usleep(20 * 1000);
    }
  }

  std::mutex mutex_;
  std::vector<CUevent> events_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class Rank {
 public:
  Rank(const Nccl& nccl, const Program& program, Shared* shared, unsigned rank)
      : nccl_(nccl), program_(program), shared_(shared), rank_(rank), context_(open()), watchdog_(context_) {
    const auto code = image("corpus");
    CUmodule module = nullptr;
    CK(cuModuleLoadData(&module, code.data()));
    CK(cuModuleGetFunction(&compute_, module, "busy_for"));
    CK(cuModuleGetFunction(&dispatch_, module, "dispatch"));
    CK(cuStreamCreate(&computes_, CU_STREAM_NON_BLOCKING));
    CK(cuStreamCreate(&grids_, CU_STREAM_NON_BLOCKING));
    CK(cuMemHostRegister(shared, sizeof(Shared), CU_MEMHOSTREGISTER_DEVICEMAP));
    // Loaded before anything that could wait for another rank.
    CK(launch_one(compute_, computes_, 1000ull));
    CK(cuStreamSynchronize(computes_));
    const size_t bytes = size_t{65536} * 8 * program.ranks;
    CK(cuMemAlloc(&from_, bytes));
    CK(cuMemAlloc(&to_, bytes));
    come_together();
  }

  void run() {
    const auto& operations = program_.operations;
    for (size_t i = 0; i < operations.size(); ++i) {
      const bool is_faulty = program_.fault.rank == rank_ && program_.fault.at == i;
      if (!is_faulty && program_.fault.at == i && program_.fault.kind == "load" && are_together(operations[i].where)) wait_for(shared_->may_join);
      if (is_faulty && program_.fault.kind != "none") say(program_.fault.kind);
      if (program_.fault.at == i && concerns_all(operations[i])) continue;
      if (is_faulty && program_.fault.kind == "order") {
        perform(operations[i + 1]);
        perform(operations[i++]);
      } else if (is_faulty) {
        perform_faulty(operations[i]);
      } else {
        perform(operations[i]);
      }
    }
    say("submitted");
    CK(cuCtxSynchronize());
    watchdog_.end();
    for (unsigned where = kWheres; where-- > 0;) {
      if (comms_[where] != nullptr) NK(nccl_.CommDestroy(comms_[where]));
    }
    say(std::to_string(operations.size()) + " operations");
  }

 private:
  CUcontext open() const {
    CUcontext context = nullptr;
    CUdevice device = 0;
    int devices = 0;
    CK(cuInit(0));
    CK(cuDeviceGetCount(&devices));
    CK(cuDeviceGet(&device, static_cast<int>(rank_) % devices));
    CK(cuDevicePrimaryCtxRetain(&context, device));
    CK(cuCtxSetCurrent(context));
    return context;
  }

  void check_nccl(ncclResult_t result, const char* call) const {
    if (result == ncclSuccess) return;
    std::fprintf(stderr, "rank %u: %s: %s\n", rank_, call, nccl_.GetErrorString(result));
    std::_Exit(3);
  }

  void come_together() {
    if (rank_ == 0) {
      NK(nccl_.GetUniqueId(&shared_->id));
      shared_->has_id = true;
    }
    wait_for(shared_->has_id);
    const auto ranks = static_cast<int>(program_.ranks), rank = static_cast<int>(rank_);
    for (Where where : {kWorld, kHalves, kPairs}) {
      if (!program_.uses(where)) continue;
      if (program_.has_fault("init", rank_) && program_.operations[program_.fault.at].where == where) {
        say("init");
        sleep_for_good();
      }
      const auto members = program_.members(where, rank_);
      if (where == kWorld) NK(nccl_.CommInitRank(&comms_[where], ranks, shared_->id, rank));
      else NK(nccl_.CommSplit(comms_[kWorld], members.empty() ? NCCL_SPLIT_NOCOLOR : static_cast<int>(members.front()), rank, &comms_[where], nullptr));
      CK(cuStreamCreate(&streams_[where], CU_STREAM_NON_BLOCKING));
    }
  }

  // At once, for a test that waits for the job to stand still.
  void say(const std::string& what) const {
    std::printf("rank %u: %s\n", rank_, what.c_str());
    std::fflush(stdout);
  }

  [[noreturn]] static void sleep_for_good() {
    for (;;) pause();
  }

  // It gives the processor away now and then: there are virtual machines on which a loop without a system call keeps it for half a minute,
  // and everything that waits for that processor stands still.
  [[noreturn]] static void compute_for_good() {
    for (volatile unsigned turns = 0;; turns = turns + 1) {
      if (turns % (1u << 20) == 0) sched_yield();
    }
  }

  // The faults in which every rank does something else than the operation alone.
  bool concerns_all(const Operation& operation) {
    const std::string& kind = program_.fault.kind;
    const bool is_faulty = program_.fault.rank == rank_;
    if (kind == "fills") {
      if (is_faulty) sleep_for_good();
      perform(operation);
      for (unsigned i = 0; i < kMany; ++i) CK(launch_one(compute_, streams_[operation.where], 1000ull));
    } else if (kind == "grid" || kind == "grids") {
      CK(cuCtxSynchronize());
      if (kind == "grid" && is_faulty) launch_grid();
      perform(operation);
      usleep(kKernelStarts);
      if (kind == "grids" || !is_faulty) launch_grid();
    } else if (kind == "one_queue") {
      send_and_receive(rank_ % 2 == 0 ? kWorld : kPairs, rank_ % 2 == 0 ? kPairs : kWorld);
    } else if (kind == "apart") {
      grouped_ = false;
      perform(operation);
    } else {
      return false;
    }
    return true;
  }

  // A cooperative grid of as many blocks as the device holds. It ends when all ranks have launched theirs.
  void launch_grid() {
    int multiprocessors = 0, threads = 0;
    CUdevice device = 0;
    CUdeviceptr grids = 0;
    CK(cuCtxGetDevice(&device));
    CK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    CK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
    CK(cuMemHostGetDevicePointer(&grids, shared_->grids, 0));
    unsigned rank = rank_, ranks = program_.ranks, number = 1;
    void* parameters[] = {&grids, &rank, &ranks, &number};
    const auto blocks = static_cast<unsigned>(multiprocessors * (threads / 1024));
    CK(cuLaunchCooperativeKernel(dispatch_, blocks, 1, 1, 1024, 1, 1, 0, grids_, parameters));
  }

  // Sends on one communicator and receives on the other one, each with the rank beside this one.
  void send_and_receive(Where sends, Where receives) {
    const auto peer = [&](Where where) { return static_cast<int>((rank_ ^ 1) - program_.members(where, rank_).front()); };
    NK(nccl_.Send(reinterpret_cast<void*>(from_), 512, ncclFloat32, peer(sends), comms_[sends], streams_[sends]));
    CK(cuStreamWaitEvent(computes_, event_behind(streams_[sends]), 0));
    CK(launch_one(compute_, computes_, 1000ull));
    NK(nccl_.Recv(reinterpret_cast<void*>(to_), 512, ncclFloat32, peer(receives), comms_[receives], streams_[receives]));
  }

  bool are_together(Where where) const {
    const auto with = program_.members(where, rank_);
    return with == program_.members(where, program_.fault.rank);
  }

  void perform_faulty(Operation operation) {
    const std::string& kind = program_.fault.kind;
    if (kind == "late") sleep(2);
    if (kind == "skip") sleep_for_good();
    if (kind == "loop") compute_for_good();
    if (kind == "exits") std::exit(3);
    if (kind == "crashes") raise(SIGSEGV);
    if (kind == "stops") raise(SIGSTOP);
    if (kind == "other") operation.call = operation.call == Call::all_gather ? Call::all_reduce : Call::all_gather;
    if (kind == "size") operation.count += 1;
    if (kind == "type") operation.type = operation.type == ncclFloat32 ? ncclInt32 : ncclFloat32;
    if (kind == "root") operation.root = operation.root == 0 ? 1 : 0;
    if (kind == "unwritten" || kind == "behind") {
      const MappedWord never = mapped_word();
      CK(cuStreamWaitValue32(computes_, never.device, 1, CU_STREAM_WAIT_VALUE_EQ));
      if (kind == "unwritten") CK(cuStreamSynchronize(computes_));
    }
    receives_ = kind != "no_receive";
    perform(operation);
    receives_ = true;
    if (kind == "load") {
      const auto other = image("corpus_other");
      CUmodule loaded = nullptr;
      CK(cuModuleLoadData(&loaded, other.data()));
      shared_->may_join = true;
    }
  }

  CUevent event_behind(CUstream stream) const {
    CUevent event = nullptr;
    CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CK(cuEventRecord(event, stream));
    return event;
  }

  void perform(const Operation& operation) {
    const auto members = program_.members(operation.where, rank_);
    if (members.empty() || (members.size() == 1 && operation.call == Call::ring)) return;
    if (operation.computes_first) CK(launch_one(compute_, computes_, 50000ull));
    const CUstream stream = streams_[operation.where];
    CK(cuStreamWaitEvent(stream, event_behind(computes_), 0));
    submit(operation, members, stream);
    const CUevent end = event_behind(stream);
    watchdog_.watch(end);
    if (operation.compute_waits) CK(cuStreamWaitEvent(computes_, end, 0));
  }

  void submit(const Operation& operation, const std::vector<unsigned>& members, CUstream stream) {
    const ncclComm_t comm = comms_[operation.where];
    void *from = reinterpret_cast<void*>(from_), *to = reinterpret_cast<void*>(to_);
    const auto [call, where, together, count, type, root, computes, waits] = operation;
    if (call == Call::ring) return exchange(operation, members, stream);
    if (together > 1) NK(nccl_.GroupStart());
    for (unsigned i = 0; i < together; ++i) {
      switch (call) {
        case Call::all_reduce: NK(nccl_.AllReduce(from, to, count, type, ncclSum, comm, stream)); break;
        case Call::all_gather: NK(nccl_.AllGather(from, to, count, type, comm, stream)); break;
        case Call::reduce_scatter: NK(nccl_.ReduceScatter(from, to, count, type, ncclSum, comm, stream)); break;
        case Call::broadcast: NK(nccl_.Broadcast(from, to, count, type, root, comm, stream)); break;
        case Call::reduce: NK(nccl_.Reduce(from, to, count, type, ncclSum, root, comm, stream)); break;
        case Call::ring: break;
      }
    }
    if (together > 1) NK(nccl_.GroupEnd());
  }

  // Each rank sends to the next one and receives from the one before.
  void exchange(const Operation& operation, const std::vector<unsigned>& members, CUstream stream) {
    const auto size = static_cast<int>(members.size()), self = static_cast<int>(rank_ - members.front());
    const ncclComm_t comm = comms_[operation.where];
    if (grouped_) NK(nccl_.GroupStart());
    NK(nccl_.Send(reinterpret_cast<void*>(from_), operation.count, operation.type, (self + 1) % size, comm, stream));
    if (receives_) NK(nccl_.Recv(reinterpret_cast<void*>(to_), operation.count, operation.type, (self + size - 1) % size, comm, stream));
    if (grouped_) NK(nccl_.GroupEnd());
  }

  const Nccl& nccl_;
  const Program& program_;
  Shared* shared_;
  unsigned rank_;
  CUcontext context_;
  Watchdog watchdog_;
  CUfunction compute_ = nullptr, dispatch_ = nullptr;
  CUstream computes_ = nullptr, grids_ = nullptr, streams_[kWheres] = {};
  CUdeviceptr from_ = 0, to_ = 0;
  ncclComm_t comms_[kWheres] = {};
  bool receives_ = true, grouped_ = true;
};

int wrong_use() {
  std::fputs("usage: RANK=N WORLD_SIZE=N nccl_job FILE steps FAULT [RANK [OPERATION]] | FILE random SEED\n"
             "       nccl_job describe SEED|FAULT WORLD [RANK [OPERATION]]\n"
             "FILE must not be there before the job. The faults are in testapps/ranks/nccl/program.hpp.\n",
             stderr);
  return 2;
}

unsigned number(const char* text) { return static_cast<unsigned>(std::strtoul(text, nullptr, 10)); }

// The program of a fault: at the sixteenth operation of the last rank, for which its compute stream waits, unless the arguments name others.
Program program_of(const std::string& fault, unsigned ranks, int count, char** arguments) {
  return steps(ranks, {fault, count > 0 ? number(arguments[0]) : ranks - 1, count > 1 ? number(arguments[1]) - 1 : 15});
}

bool is_well(const Program& program) { return program.fault.rank < program.ranks && program.fault.at + 1 < program.operations.size(); }

}  // namespace

int nccl_job(const Nccl& nccl, int count, char** arguments) {
  if (count >= 4 && std::string(arguments[1]) == "describe") {
    const unsigned ranks = number(arguments[3]);
    const bool is_seed = std::strspn(arguments[2], "0123456789") == std::strlen(arguments[2]);
    if (ranks == 0 || (!is_seed && !is_fault(arguments[2]))) return wrong_use();
    const Program program = is_seed ? random_program(ranks, std::strtoull(arguments[2], nullptr, 10)) : program_of(arguments[2], ranks, count - 4, arguments + 4);
    if (!is_well(program)) return wrong_use();
    std::printf("%s\n", program.described().c_str());
    return 0;
  }
  const char *rank = std::getenv("RANK"), *ranks = std::getenv("WORLD_SIZE");
  if (count < 4 || rank == nullptr || ranks == nullptr || number(rank) >= number(ranks)) return wrong_use();
  const std::string kind = arguments[2];
  if (kind != "random" && (kind != "steps" || !is_fault(arguments[3]))) return wrong_use();
  const Program program = kind == "random" ? random_program(number(ranks), std::strtoull(arguments[3], nullptr, 10)) : program_of(arguments[3], number(ranks), count - 4, arguments + 4);
  if (!is_well(program)) return wrong_use();
  Rank(nccl, program, share<Shared>(arguments[1]), number(rank)).run();
  return 0;
}

}  // namespace lg
