// A rank of a training that gives its communicator up when a step fails, makes a new one, and goes on with the last good step.
//
//   RANK=N WORLD_SIZE=N nccl_heals FILE FAULT     FILE: what the ranks share; FAULT: none, skip, late, load, query, two
//
// Each step sums the ranks' numbers, and checks the sum. In one step, once, a rank has a fault. Without help the others wait for good;
// where the blocked calls return an error, every rank ends with the sum of all steps.
//
//   skip   the last rank sleeps instead of its collective, and calls it much later
//   load   the first rank loads a module behind its collective; the last one comes when that is loaded
//   late   as skip, but it sleeps on for some seconds when another rank has given up
//   query  as skip, and the ranks poll for the end of a step
//   two    as skip, and another communicator has work that nobody waits for in vain
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "image.hpp"
#include "session.hpp"
#include "shared.hpp"

namespace {

constexpr int kSteps = 6, kFaultyStep = 3, kMostGenerations = 4;
constexpr unsigned kSleepsFor = 20;

struct Generation {
  std::atomic<bool> has_id;
  std::atomic<int> given_up, step;  // `step`: one more than the first that a rank has not done
  ncclUniqueId id;
};
struct Shared {
  Generation generations[kMostGenerations];
  std::atomic<bool> loaded;
};

int number(const char* name) {
  const char* text = std::getenv(name);
  EXPECT(text != nullptr);
  return std::atoi(text);
}

class Rank {
 public:
  Rank(Shared* shared, std::string fault) : shared_(shared), fault_(std::move(fault)) {
    lg::open_session();
    CK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CK(cuStreamCreate(&other_stream_, CU_STREAM_NON_BLOCKING));
    CK(cuMemAlloc(&from_, sizeof(float)));
    CK(cuMemAlloc(&to_, sizeof(float)));
    CK(cuMemAlloc(&other_words_, 2 * sizeof(float)));
  }

  void run() {
    come_together();
    float sums[kSteps] = {}, total = 0;
    for (int step = 0; step < kSteps;) {
      const std::string why = try_step(step, sums[step]);
      if (why.empty()) {
        EXPECT(sums[step] == expected(step));
        ++step;
      } else {
        say("step " + std::to_string(step) + ": " + why);
        step = give_up(step);
      }
    }
    for (const float sum : sums) total += sum;
    say("total " + std::to_string(static_cast<int>(total)));
    EXPECT(ncclCommDestroy(comm_) == ncclSuccess);
  }

 private:
  void say(const std::string& what) const {
    std::printf("rank %d: %s\n", rank_, what.c_str());
    std::fflush(stdout);
  }

  float expected(int step) const { return static_cast<float>(ranks_ * (ranks_ + 1) / 2 + ranks_ * step); }

  void come_together() {
    Generation& now = shared_->generations[generation_];
    if (rank_ == 0) {
      EXPECT(ncclGetUniqueId(&now.id) == ncclSuccess);
      now.has_id = true;
    }
    while (!now.has_id) usleep(1000);
    EXPECT(ncclCommInitRank(&comm_, ranks_, now.id, rank_) == ncclSuccess);
    if (fault_ == "two" && other_ == nullptr) EXPECT(ncclCommSplit(comm_, 0, rank_, &other_, nullptr) == ncclSuccess);
  }

  // Empty where the step is done; else what went wrong.
  std::string try_step(int step, float& sum) {
    const bool is_faulty = generation_ == 0 && step == kFaultyStep && fault_ != "none";
    const float own = static_cast<float>(rank_ + 1 + step);
    CK(cuMemcpyHtoD(from_, &own, sizeof own));
    CK(cuMemsetD8(to_, 0, sizeof(float)));
    if (other_ != nullptr && reduce(other_, other_stream_, other_words_, other_words_ + sizeof(float)) != ncclSuccess) return "the other communicator's collective is refused";
    if (is_faulty && rank_ + 1 == ranks_) come_late();
    const ncclResult_t called = reduce(comm_, stream_, from_, to_);
    if (called != ncclSuccess) return std::string("the collective: ") + ncclGetErrorString(called);
    if (is_faulty && rank_ == 0 && fault_ == "load") {
      const auto code = lg::image("corpus_other");
      CUmodule module = nullptr;
      const CUresult loaded = cuModuleLoadData(&module, code.data());
      if (loaded != CUDA_SUCCESS) return in_words("cuModuleLoadData", loaded);
      shared_->loaded = true;
    }
    const CUresult ended = fault_ == "query" ? poll() : cuStreamSynchronize(stream_);
    if (ended != CUDA_SUCCESS) return in_words(fault_ == "query" ? "cuStreamQuery" : "cuStreamSynchronize", ended);
    const CUresult copied = cuMemcpyDtoH(&sum, to_, sizeof sum);
    return copied == CUDA_SUCCESS ? "" : in_words("cuMemcpyDtoH", copied);
  }

  static ncclResult_t reduce(ncclComm_t comm, CUstream stream, CUdeviceptr from, CUdeviceptr to) {
    return ncclAllReduce(reinterpret_cast<void*>(from), reinterpret_cast<void*>(to), 1, ncclFloat32, ncclSum, comm, stream);
  }

  CUresult poll() const {
    CUresult r = CUDA_ERROR_NOT_READY;
    while ((r = cuStreamQuery(stream_)) == CUDA_ERROR_NOT_READY) usleep(1000);
    return r;
  }

  // Until another rank has given up, as a program that reads its data for too long.
  void come_late() const {
    for (unsigned slept = 0; slept < kSleepsFor * 100 && shared_->generations[0].given_up == 0; ++slept) {
      if (fault_ == "load" && shared_->loaded) return;
      usleep(10 * 1000);
    }
    if (fault_ == "late") sleep(4);
  }

  static std::string in_words(const char* call, CUresult result) {
    const char* name = "an unknown error";
    cuGetErrorName(result, &name);
    return std::string(call) + ": " + name;
  }

  // All ranks go on with the first step that one of them has not done.
  int give_up(int step) {
    EXPECT(generation_ + 1 < kMostGenerations);
    ncclCommAbort(comm_);
    comm_ = nullptr;
    Generation& now = shared_->generations[generation_];
    int first = now.step;
    while ((first == 0 || first > step + 1) && !now.step.compare_exchange_weak(first, step + 1)) {}
    ++now.given_up;
    while (now.given_up < ranks_) usleep(1000);
    ++generation_;
    come_together();
    return now.step - 1;
  }

  Shared* shared_;
  std::string fault_;
  int rank_ = number("RANK"), ranks_ = number("WORLD_SIZE"), generation_ = 0;
  ncclComm_t comm_ = nullptr, other_ = nullptr;
  CUstream stream_ = nullptr, other_stream_ = nullptr;
  CUdeviceptr from_ = 0, to_ = 0, other_words_ = 0;  // the other communicator's work may last while `from_` changes
};

}  // namespace

int main(int count, char** arguments) {
  EXPECT(count == 3);
  Rank(lg::share<Shared>(arguments[1]), arguments[2]).run();
  return 0;
}
