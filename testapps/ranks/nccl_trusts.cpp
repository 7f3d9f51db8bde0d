// A rank that believes each success of the driver, and then checks the sum that it stands for.
//
//   RANK=N WORLD_SIZE=3 nccl_trusts FILE SEED ROUNDS [LAST]     FILE: what the ranks share
//
// In each round, by the seed, one rank does not come to its collective; the others look at their sums in one or several ways, of which a destructor may take
// the first error. Sums lie in memory that the host sees, so that no further call has to tell. Communicators: of all ranks, of the first two, and of the last
// two; the second sum of a chain is made of the first one, on the same stream or on one that waits for it. A round in which a rank has an error, or gives up,
// ends with new communicators for all.
//
// LAST is for the last round: `host` has a rank in which a host function behind the collective wakes a thread, `late` one that submits such a function at any
// time, before the revoke, meanwhile, or afterwards, and `mapped` one that looks at memory alone. No call could tell these, so they are to be failed or ended, and
// the ranks then say so; or the submission is refused.
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "session.hpp"
#include "shared.hpp"

namespace {

constexpr int kRanks = 3, kMostRounds = 64, kSums = 3, kAll = -1, kNone = -2;
constexpr unsigned kWaits = 30 * 1000;

struct Round {
  std::atomic<bool> has_id;
  std::atomic<int> given_up, over;
  ncclUniqueId id;
};
struct Shared {
  Round rounds[kMostRounds];
  std::atomic<bool> gone;
};

enum class Shape { all, chain, joined, two, kinds };
enum class Look { stream, event, query, event_query, context, thread, behind, copy, unified, batch, kinds };

struct Released {
  CUdeviceptr memory = 0;
  ~Released() { cuMemFree(memory); }
};

int below(std::mt19937& random, int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); }

class Rank {
 public:
  Rank(Shared* shared, int rank, unsigned seed) : shared_(shared), rank_(rank), seed_(seed), context_(lg::open_session().context) {
    for (CUstream& stream : streams_) CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CK(cuMemAlloc(&from_, sizeof(float)));
    CK(cuMemAlloc(&scratch_, sizeof(float)));
    void* words = nullptr;
    CK(cuMemHostAlloc(&words, (kSums + 1) * sizeof(float), CU_MEMHOSTALLOC_DEVICEMAP));
    sums_ = static_cast<volatile float*>(words);
    CK(cuMemHostGetDevicePointer(&device_sums_, words, 0));
  }

  // False where a rank is gone.
  bool round(int number, const std::string& untold) {
    Round& now = shared_->rounds[number];
    begin(now);
    std::mt19937 plan(seed_ * 1000 + static_cast<unsigned>(number)), own(plan() + static_cast<unsigned>(rank_));
    const Shape shape = static_cast<Shape>(below(plan, static_cast<int>(Shape::kinds)));
    const int culprit = untold.empty() ? below(plan, kRanks) : 2;
    if (rank_ == culprit) {
      for (unsigned slept = 0; slept < kWaits && now.given_up == 0 && !shared_->gone; ++slept) usleep(1000);
    } else if (untold.empty()) {
      submit(shape);
      if (!look(own)) ++now.given_up;
    } else {
      submit(Shape::all);
      if (rank_ == 0) look_without_a_call(untold, now, own);
      if (!trust(cuStreamSynchronize(streams_[0]), 0)) ++now.given_up;
    }
    return end(now);
  }

 private:
  void begin(Round& now) {
    const float own = value(rank_);
    for (int i = 0; i <= kSums; ++i) sums_[i] = 0;
    CK(cuMemcpyHtoD(from_, &own, sizeof own));
    CK(cuCtxSynchronize());
    if (rank_ == 0) EXPECT(ncclGetUniqueId(&now.id) == ncclSuccess);
    if (rank_ == 0) now.has_id = true;
    while (!now.has_id) usleep(1000);
    EXPECT(ncclCommInitRank(&all_, kRanks, now.id, rank_) == ncclSuccess);
    EXPECT(ncclCommSplit(all_, rank_ < 2 ? 0 : 1, rank_, &first_, nullptr) == ncclSuccess);
    EXPECT(ncclCommSplit(all_, rank_ < 1 ? 0 : 1, rank_, &last_, nullptr) == ncclSuccess);
    wanted_.clear();
  }

  bool end(Round& now) {
    ++now.over;
    while (now.over < kRanks && !shared_->gone) usleep(1000);
    if (shared_->gone) return false;
    for (ncclComm_t comm : {first_, last_, all_}) ncclCommAbort(comm);
    // The contexts live, and nothing of the round is answered for any more.
    for (CUstream stream : streams_) CK(cuStreamSynchronize(stream));
    CK(cuCtxSynchronize());
    return true;
  }

  static float value(int rank) { return static_cast<float>(rank + 1); }
  CUdeviceptr sum(int i) const { return device_sums_ + static_cast<unsigned>(i) * sizeof(float); }

  struct Wanted {
    int sum, stream;
    float expected;
  };

  void reduce(ncclComm_t comm, CUdeviceptr from, int to, int stream, float expected) {
    // A rank whose peers have given up early may be refused.
    const ncclResult_t called =
        ncclAllReduce(reinterpret_cast<void*>(from), reinterpret_cast<void*>(sum(to)), 1, ncclFloat32, ncclSum, comm, streams_[stream]);
    EXPECT(called == ncclSuccess || called == ncclInvalidUsage);
    refused_ |= called != ncclSuccess;
    wanted_.push_back({to, stream, expected});
  }

  void submit(Shape shape) {
    const float of_first = value(0) + value(1), of_all = of_first + value(2);
    refused_ = false;
    if (shape == Shape::all || shape == Shape::two) reduce(all_, from_, 0, 0, of_all);
    if (shape == Shape::two && rank_ < 2) reduce(first_, from_, 1, 1, of_first);
    if (shape == Shape::chain || shape == Shape::joined) {
      const int second = shape == Shape::chain ? 0 : 1;
      if (rank_ < 2) reduce(first_, from_, 1, 0, of_first);
      if (rank_ == 1 && second == 1) {
        CK(cuEventRecord(events_[2], streams_[0]));
        CK(cuStreamWaitEvent(streams_[1], events_[2], 0));
      }
      if (rank_ > 0) reduce(last_, rank_ == 1 ? sum(1) : from_, 2, second, of_all);
    }
    for (int i = 0; i < 2; ++i) CK(cuEventRecord(events_[i], streams_[i]));
  }

  // Whether a call has succeeded: then the sums of the stream are right, or those of all.
  bool trust(CUresult result, int stream) {
    if (result == CUDA_ERROR_LAUNCH_FAILED) leave("failed");
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_TIMEOUT);
    if (result != CUDA_SUCCESS) return false;
    for (const Wanted& one : wanted_) {
      if (stream == kAll || one.stream == stream) believe(one.expected, sums_[one.sum]);
    }
    return true;
  }

  void believe(float expected, float found) {
    if (refused_ || expected == found) return;
    std::printf("rank %d: SILENTLY WRONG after look %d, turn %d: %g, expected %g\n", rank_, static_cast<int>(newest_), turn_,
                static_cast<double>(found), static_cast<double>(expected));
    shared_->gone = true;
    std::fflush(stdout);
    std::_Exit(9);
  }

  // One look at each stream, or several; after an error, once more. False where one has failed.
  bool look(std::mt19937& own) {
    bool all_well = !refused_;
    const int first = below(own, 2);
    for (turn_ = 0; turn_ < 3; ++turn_) {
      const int stream = (first + turn_) % 2;
      if (below(own, 3) == 0) release();
      all_well &= look_at(static_cast<Look>(below(own, static_cast<int>(Look::kinds))), stream);
    }
    return all_well;
  }

  bool look_at(Look how, int stream) {
    CUresult answer = CUDA_ERROR_NOT_READY;
    newest_ = how;
    switch (how) {
      case Look::stream: return trust(cuStreamSynchronize(streams_[stream]), stream);
      case Look::event: return trust(cuEventSynchronize(events_[stream]), stream);
      case Look::query:
        while ((answer = cuStreamQuery(streams_[stream])) == CUDA_ERROR_NOT_READY) usleep(1000);
        return trust(answer, stream);
      case Look::event_query:
        while ((answer = cuEventQuery(events_[stream])) == CUDA_ERROR_NOT_READY) usleep(1000);
        return trust(answer, stream);
      case Look::context: return trust(cuCtxSynchronize(), kAll);
      case Look::thread:
        std::thread([&] {
          CK(cuCtxSetCurrent(context_));
          answer = cuStreamSynchronize(streams_[stream]);
        }).join();
        return trust(answer, stream);
      case Look::behind:
        CK(cuStreamWaitEvent(streams_[2], events_[stream], 0));
        CK(cuMemsetD8Async(scratch_, 0, sizeof(float), streams_[2]));
        return trust(cuStreamSynchronize(streams_[2]), stream);
      default: return copy(how, stream);
    }
  }

  // To pageable memory: the call returns when the copy has been made, and has what it copied.
  bool copy(Look how, int stream) {
    bool all_well = true;
    for (const Wanted& one : wanted_) {
      if (one.stream != stream) continue;
      std::vector<float> there(1);
      CUdeviceptr to = reinterpret_cast<CUdeviceptr>(there.data()), at = sum(one.sum);
      size_t bytes = sizeof(float), attributes = 0;
      CUmemcpyAttributes none{};
      none.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      const CUresult copied = how == Look::copy ? cuMemcpyDtoHAsync(there.data(), at, bytes, streams_[stream])
                              : how == Look::unified
                                  ? cuMemcpyAsync(to, at, bytes, streams_[stream])
                                  : cuMemcpyBatchAsync(&to, &at, &bytes, 1, &none, &attributes, 1, streams_[stream]);
      const bool well = trust(copied, kNone);
      if (well) believe(one.expected, there[0]);
      all_well &= well;
    }
    return all_well;
  }

  // Waits for everything, and ignores the result.
  static void release() {
    CUdeviceptr memory = 0;
    CK(cuMemAlloc(&memory, sizeof(float)));
    const Released released{memory};
  }

  [[noreturn]] void leave(const char* why) {
    shared_->gone = true;
    std::printf("rank %d: %s\n", rank_, why);
    std::fflush(stdout);
    std::_Exit(3);
  }

  // Behind the sum, a host function or a copy says that it is there.
  void look_without_a_call(const std::string& how, const Round& now, std::mt19937& own) {
    static std::atomic<bool> woken = false;
    if (how == "late") usleep(static_cast<unsigned>(below(own, 4000)) * 1000);
    if (how == "host" || how == "late") {
      if (!trust(cuLaunchHostFunc(streams_[0], [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &woken), kNone)) return;
      std::thread([this] {
        while (!woken) usleep(1000);
        believe(wanted_[0].expected, sums_[0]);
      }).detach();
      return;
    }
    const float one = 1;
    CK(cuMemcpyHtoDAsync(scratch_, &one, sizeof one, streams_[0]));
    CK(cuMemcpyDtoHAsync(const_cast<float*>(&sums_[kSums]), scratch_, sizeof one, streams_[0]));
    unsigned slept = 0;
    for (; sums_[kSums] == 0 && slept < 3000; slept = now.given_up > 0 || shared_->gone ? slept + 1 : 0) usleep(1000);
    if (sums_[kSums] == 0) leave("has waited for long");
    believe(wanted_[0].expected, sums_[0]);
  }

  Shared* shared_;
  int rank_;
  unsigned seed_;
  CUcontext context_;
  ncclComm_t all_ = nullptr, first_ = nullptr, last_ = nullptr;
  CUstream streams_[3] = {};
  CUevent events_[3] = {};
  CUdeviceptr from_ = 0, scratch_ = 0, device_sums_ = 0;
  volatile float* sums_ = nullptr;
  std::vector<Wanted> wanted_;
  bool refused_ = false;
  Look newest_ = Look::kinds;
  int turn_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  EXPECT(count == 4 || count == 5);
  const char* rank = std::getenv("RANK");
  EXPECT(rank != nullptr);
  const int rounds = std::atoi(arguments[3]);
  EXPECT(rounds > 0 && rounds <= kMostRounds);
  const std::string last = count == 5 ? arguments[4] : "";
  Rank own(lg::share<Shared>(arguments[1]), std::atoi(rank), static_cast<unsigned>(std::atoi(arguments[2])));
  for (int i = 0; i < rounds; ++i) {
    if (own.round(i, i + 1 == rounds ? last : "")) continue;
    std::printf("rank %s: a rank is gone\n", rank);
    return 3;
  }
  std::printf("rank %s: %d rounds\n", rank, rounds);
  return 0;
}
