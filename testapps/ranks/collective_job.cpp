// One rank of a job: twenty collectives, submitted as NCCL submits them, and a synchronize. A collective is a kernel that ends when all
// ranks have launched theirs: each rank has a counter in a file that all map.
//
//   RANK=N WORLD_SIZE=N collective_job FILE FAULT    at the fourteenth collective, the last rank
//
//     none       joins
//     late       joins after two seconds
//     skip       sleeps instead
//     loop       computes without end instead
//     exits      ends with status 3 instead
//     crashes    ends by a signal instead
//     stops      is stopped by a signal instead
//     slow_stops is stopped right behind a synchronize of a second, in which it has waited for the ranks that are late to the one before
//     other      launches another collective
//     load       joins, and loads a module before it lets the other ranks begin that collective
//     lost       joins when the others have, and takes back the signal of rank 0 before: the collective ends on the others alone
//     unwritten  waits on its stream for a value that no operation writes, before it launches the collective
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../common/image.hpp"
#include "../common/session.hpp"
#include "../common/shared.hpp"

namespace {

constexpr unsigned kMostRanks = 1024, kCollectives = 20, kFaulty = 14;

// What all processes of the job share. A counter is for the kernels of one name.
struct Shared {
  std::atomic<unsigned> all_reduce[kMostRanks], all_gather[kMostRanks];
  std::atomic<bool> may_begin;
};

class Rank {
 public:
  Rank(Shared* shared, unsigned rank, unsigned ranks) : shared_(shared), rank_(rank), ranks_(ranks) {
    lg::open_session();
    CK(cuMemHostRegister(shared, sizeof(Shared), CU_MEMHOSTREGISTER_DEVICEMAP));
    CK(cuMemHostGetDevicePointer(&device_, shared, 0));
    const auto code = lg::image("corpus");
    CK(cuModuleLoadData(&code_, code.data()));
    CK(cuModuleGetFunction(&all_reduce_, code_, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"));
    CK(cuModuleGetFunction(&all_gather_, code_, "ncclDevKernel_AllGather_RING_LL"));
    CK(cuStreamCreate(&own_, CU_STREAM_NON_BLOCKING));
    CK(cuStreamCreate(&program_, CU_STREAM_NON_BLOCKING));
    CK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
  }

  void run(const std::string& fault) {
    const bool is_faulty = rank_ + 1 == ranks_;
    for (unsigned n = 1; n <= kCollectives; ++n) {
      if (n == kFaulty && is_faulty) {
        begin(fault, n);
      } else {
        if (n == kFaulty && fault == "load") wait_until_all_may_begin();
        if (n == kFaulty - 1 && fault == "slow_stops" && !is_faulty) sleep(2);
        collective(all_reduce_, shared_->all_reduce, n);
      }
      // Each collective before is known to have ended.
      if (fault == "lost") {
        CK(cuCtxSynchronize());
        if (n == kFaulty) pause();
      }
    }
    CK(cuCtxSynchronize());
    std::printf("rank %u: %u collectives\n", rank_, kCollectives);
  }

 private:
  void begin(const std::string& fault, unsigned n) {
    if (fault == "late") sleep(2);
    if (fault == "skip") pause();
    if (fault == "loop") for (volatile unsigned turns = 0;; ++turns) continue;
    if (fault == "exits") std::exit(3);
    if (fault == "crashes") raise(SIGSEGV);
    if (fault == "slow_stops") CK(cuCtxSynchronize());
    if (fault == "stops" || fault == "slow_stops") raise(SIGSTOP);
    if (fault == "unwritten") {
      const lg::MappedWord never = lg::mapped_word();
      CK(cuStreamWaitValue32(program_, never.device, 1, CU_STREAM_WAIT_VALUE_EQ));
      CK(cuStreamSynchronize(program_));
    }
    if (fault == "lost") take_back_a_signal(n);
    if (fault == "other") return collective(all_gather_, shared_->all_gather, n);
    collective(all_reduce_, shared_->all_reduce, n);
    if (fault == "load") {
      const auto other = lg::image("corpus_other");
      CUmodule loaded;
      CK(cuModuleLoadData(&loaded, other.data()));
      shared_->may_begin = true;
    }
  }

  void take_back_a_signal(unsigned n) const {
    for (unsigned other = 0; other < rank_; ++other) {
      while (shared_->all_reduce[other] < n) usleep(1000);
    }
    // Their kernels have seen each other's signals.
    usleep(300000);
    shared_->all_reduce[0] = 0;
  }

  // Less and less often: a rank that wakes a thousand times a second, and has to wait for a processor each time, seems to lack one.
  void wait_until_all_may_begin() const {
    for (useconds_t pause = 1000; !shared_->may_begin; pause = pause < 200000 ? 2 * pause : pause) usleep(pause);
  }

  void collective(CUfunction kernel, const std::atomic<unsigned>* counters, unsigned n) {
    const CUdeviceptr joined = device_ + (reinterpret_cast<const char*>(counters) - reinterpret_cast<const char*>(shared_));
    CK(cuEventRecord(event_, own_));
    CK(cuStreamWaitEvent(program_, event_, 0));
    CK(lg::launch_one(kernel, program_, joined, rank_, ranks_, n));
    CK(cuEventRecord(event_, program_));
    CK(cuStreamWaitEvent(own_, event_, 0));
  }

  Shared* shared_;
  unsigned rank_, ranks_;
  CUdeviceptr device_ = 0;
  CUmodule code_ = nullptr;
  CUfunction all_reduce_ = nullptr, all_gather_ = nullptr;
  CUstream own_ = nullptr, program_ = nullptr;
  CUevent event_ = nullptr;
};

}  // namespace

int main(int count, char** arguments) {
  const char *rank = std::getenv("RANK"), *ranks = std::getenv("WORLD_SIZE");
  if (count != 3 || rank == nullptr || ranks == nullptr || std::atoi(ranks) > static_cast<int>(kMostRanks)) {
    std::fputs("usage: RANK=N WORLD_SIZE=N collective_job FILE FAULT\n", stderr);
    return 2;
  }
  Rank(lg::share<Shared>(arguments[1]), static_cast<unsigned>(std::atoi(rank)), static_cast<unsigned>(std::atoi(ranks))).run(arguments[2]);
  return 0;
}
