// A rank of a training that gives its communicators up when a step fails, makes new ones, and goes on with the first step that a rank has not done.
//
//   RANK=N WORLD_SIZE=N nccl_heals FILE FAULT [SEED [COUNT]]     FILE: what the ranks share
//
// Each step sums the ranks' numbers, and checks the sums. In one step, once, a rank has a fault. Without help the others wait for good; where
// the blocked calls return an error, every rank ends with the sum of all steps, or says that a rank is gone. With a seed, the steps, the rank and
// the step of the fault are random: a step is of all ranks or of a half, has several collectives on two streams, and waits in one of nine ways.
// With a count, each of so many groups of communicators has the fault again, as far as there are steps.
//
//   skip   the rank comes to its collective once another one has given up
//   sleep  it sleeps for three seconds first
//   late   as skip, and it sleeps on for some seconds
//   load   a rank loads a module behind its collective; another one comes when that is loaded
//   order  it uses two communicators in the other order
//   query  as skip, and the ranks poll for the end of a step
//   two    as skip, and another communicator has work that nobody waits for in vain
//   both   as skip, and the ranks wait in another communicator as well
//   fork   it waits for a child
//   stop, kill, exec   it is stopped, killed, or becomes another program
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "image.hpp"
#include "session.hpp"
#include "shared.hpp"

namespace {

constexpr int kMostSteps = 64, kMostTogether = 3, kMostGenerations = 64;
constexpr unsigned kSleepsFor = 20;

// So that a step of a revoked communicator raises no alarm of its own: the caller gives up.
#define TRY(call)                                              \
  do {                                                         \
    const CUresult r_ = (call);                                \
    if (r_ != CUDA_SUCCESS) return in_words(#call, r_);        \
  } while (false)

enum class Wait { stream, query, event, event_query, context, copy, thread, released, joined, kinds };

struct Step {
  bool is_of_half = false;
  int together = 1;
  Wait wait = Wait::stream;
};

// The same in all ranks.
struct Plan {
  int steps = 6, faulty_step = 3, faults, culprit, other;
  Step step[kMostSteps];

  Plan(int ranks, const std::string& fault, unsigned seed, int count) : faults(fault == "none" ? 0 : count), culprit(fault == "load" ? 0 : ranks - 1), other(fault == "load" ? ranks - 1 : 0) {
    for (Step& one : step) one.wait = fault == "query" ? Wait::query : Wait::stream;
    if (seed == 0) return;
    std::mt19937 random(seed);
    const auto below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
    steps = count + 2 + below(6);
    faulty_step = below(steps - count + 1);
    culprit = below(ranks);
    other = (culprit + 1 + below(ranks - 1)) % ranks;
    for (Step& one : step) one = {ranks >= 4 && below(3) == 0, 1 + below(kMostTogether), static_cast<Wait>(below(static_cast<int>(Wait::kinds)))};
    // Of all ranks: the fault keeps at least one of them waiting.
    for (int fault_of = 0; fault_of < count; ++fault_of) step[faulty_step + fault_of].is_of_half = false;
  }

  // The first generation has the fault in its step; each further one in the step with which it begins, or the next one of all ranks.
  bool has_fault(int generation, int first, int number) const {
    if (generation >= faults) return false;
    int at = std::max(first, faulty_step);
    while (at < steps && step[at].is_of_half) ++at;
    return number == at;
  }
};

struct Generation {
  std::atomic<bool> has_id, loaded;
  std::atomic<int> given_up, done, step;  // `step`: one more than the first that a rank has not done
  ncclUniqueId id;
};
struct Shared {
  Generation generations[kMostGenerations];
  std::atomic<bool> gone;
};

int number(const char* name) {
  const char* text = std::getenv(name);
  EXPECT(text != nullptr);
  return std::atoi(text);
}

std::string in_words(const char* call, CUresult result) {
  const char* name = "an unknown error";
  cuGetErrorName(result, &name);
  return std::string(call, std::strcspn(call, "(")) + ": " + name;
}

class Rank {
 public:
  Rank(Shared* shared, std::string fault, unsigned seed, int count)
      : shared_(shared), fault_(std::move(fault)), plan_(ranks_, fault_, seed, count) {
    context_ = lg::open_session().context;
    for (CUstream& stream : streams_) CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUstream* stream : {&other_stream_, &joined_stream_}) CK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (CUdeviceptr* word : {&from_, &joined_word_}) CK(cuMemAlloc(word, sizeof(float)));
    CK(cuMemAlloc(&to_, kMostTogether * sizeof(float)));
    CK(cuMemAlloc(&other_words_, 2 * sizeof(float)));
  }

  int run() {
    come_together();
    float sums[kMostSteps] = {}, total = 0;
    for (int step = 0; step <= plan_.steps;) {
      const bool others_have = shared_->generations[generation_].given_up > 0;
      const std::string why = others_have ? "another rank has given up" : step == plan_.steps ? wait_for_the_end() : try_step(step, sums[step]);
      if (why.empty()) {
        ++step;
      } else {
        say("step " + std::to_string(step) + ": " + why);
        if (!give_up(step)) return 3;
      }
    }
    for (const float sum : sums) total += sum;
    say("total " + std::to_string(static_cast<int>(total)));
    EXPECT(ncclCommDestroy(comm_) == ncclSuccess);
    return 0;
  }

 private:
  void say(const std::string& what) const {
    std::printf("rank %d: %s\n", rank_, what.c_str());
    std::fflush(stdout);
  }

  int half() const { return rank_ < ranks_ / 2 ? 0 : 1; }

  float expected(int step) const {
    const bool halved = plan_.step[step].is_of_half;
    const int first = halved && half() == 1 ? ranks_ / 2 : 0, last = halved && half() == 0 ? ranks_ / 2 : ranks_;
    int sum = 0;
    for (int rank = first; rank < last; ++rank) sum += rank + 1 + step;
    return static_cast<float>(sum);
  }

  bool has_other() const { return fault_ == "two" || fault_ == "both" || fault_ == "order"; }

  void come_together() {
    Generation& now = shared_->generations[generation_];
    if (rank_ == 0) {
      EXPECT(ncclGetUniqueId(&now.id) == ncclSuccess);
      now.has_id = true;
    }
    while (!now.has_id) usleep(1000);
    EXPECT(ncclCommInitRank(&comm_, ranks_, now.id, rank_) == ncclSuccess);
    if (has_other() && other_ == nullptr) EXPECT(ncclCommSplit(comm_, 0, rank_, &other_, nullptr) == ncclSuccess);
    if (ranks_ >= 4) EXPECT(ncclCommSplit(comm_, half(), rank_, &half_, nullptr) == ncclSuccess);
  }

  // A rank whose last step was revoked while that of the others has ended needs them once more.
  std::string wait_for_the_end() {
    Generation& now = shared_->generations[generation_];
    ++now.done;
    while (now.done < ranks_ && now.given_up == 0) usleep(1000);
    return now.done == ranks_ ? "" : "another rank has given up";
  }

  // Empty where the step is done; else what went wrong.
  std::string try_step(int number, float& sum) {
    const Step& step = plan_.step[number];
    const bool is_faulty = plan_.has_fault(generation_, first_step_, number), is_culprit = is_faulty && rank_ == plan_.culprit;
    const float own = static_cast<float>(rank_ + 1 + number);
    TRY(cuMemcpyHtoD(from_, &own, sizeof own));
    TRY(cuMemsetD8(to_, 0, kMostTogether * sizeof(float)));
    if ((fault_ == "two" || (fault_ == "both" && !is_culprit)) && reduce_other() != ncclSuccess) return "the other communicator's collective is refused";
    if (is_culprit) have_the_fault();
    if (is_faulty && fault_ == "load" && rank_ == plan_.other) come_late();
    if (fault_ == "order" && is_culprit) TRY(wait_for_other());
    for (int i = 0; i < step.together; ++i) {
      const ncclResult_t called = reduce(step.is_of_half ? half_ : comm_, streams_[i % 2], from_, to_ + static_cast<unsigned>(i) * sizeof(float));
      if (called != ncclSuccess) return std::string("the collective: ") + ncclGetErrorString(called);
    }
    if (is_culprit && fault_ == "load") {
      const auto code = lg::image("corpus_other");
      CUmodule module = nullptr;
      TRY(cuModuleLoadData(&module, code.data()));
      shared_->generations[generation_].loaded = true;
    }
    const std::string why = wait(step.wait);
    if (!why.empty()) return why;
    if (is_faulty && fault_ == "both" && is_culprit && reduce_other() != ncclSuccess) return "the other communicator's collective is refused";
    if (fault_ == "order" && !is_culprit) TRY(wait_for_other());
    float sums[kMostTogether];
    TRY(cuMemcpyDtoH(sums, to_, sizeof sums));
    for (int i = 0; i < step.together; ++i) EXPECT(sums[i] == expected(number));
    sum = sums[0];
    return "";
  }

  static ncclResult_t reduce(ncclComm_t comm, CUstream stream, CUdeviceptr from, CUdeviceptr to) {
    return ncclAllReduce(reinterpret_cast<void*>(from), reinterpret_cast<void*>(to), 1, ncclFloat32, ncclSum, comm, stream);
  }

  ncclResult_t reduce_other() const { return reduce(other_, other_stream_, other_words_, other_words_ + sizeof(float)); }

  CUresult wait_for_other() const { return reduce_other() == ncclSuccess ? cuStreamSynchronize(other_stream_) : CUDA_ERROR_UNKNOWN; }

  std::string wait(Wait how) {
    if (how == Wait::context) {
      TRY(cuCtxSynchronize());
      return "";
    }
    for (int i = 0; i < 2; ++i) {
      const std::string why = wait_for(how, streams_[i], events_[i]);
      if (!why.empty()) return why;
    }
    return "";
  }

  std::string wait_for(Wait how, CUstream stream, CUevent event) {
    CUresult r = CUDA_ERROR_NOT_READY;
    std::string why;
    float word = 0;
    TRY(cuEventRecord(event, stream));
    switch (how) {
      case Wait::query:
        while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) usleep(1000);
        return r == CUDA_SUCCESS ? "" : in_words("cuStreamQuery", r);
      case Wait::event: TRY(cuEventSynchronize(event)); return "";
      case Wait::event_query:
        while ((r = cuEventQuery(event)) == CUDA_ERROR_NOT_READY) usleep(1000);
        return r == CUDA_SUCCESS ? "" : in_words("cuEventQuery", r);
      case Wait::copy: TRY(cuMemcpyDtoHAsync(&word, to_, sizeof word, stream)); TRY(cuStreamSynchronize(stream)); return "";
      case Wait::released: {
        CUdeviceptr scratch = 0;
        TRY(cuMemAlloc(&scratch, sizeof word));
        cuMemFree(scratch);  // waits for the collective, as a destructor that ignores the result
        TRY(cuStreamSynchronize(stream));
        return "";
      }
      case Wait::joined:
        TRY(cuStreamWaitEvent(joined_stream_, event, 0));
        TRY(cuMemsetD8Async(joined_word_, 0, sizeof word, joined_stream_));
        TRY(cuStreamSynchronize(joined_stream_));
        return "";
      case Wait::thread:
        std::thread([&] {
          CK(cuCtxSetCurrent(context_));
          why = wait_for(Wait::stream, stream, event);
        }).join();
        return why;
      default: TRY(cuStreamSynchronize(stream)); return "";
    }
  }

  void have_the_fault() {
    if (fault_ == "stop" || fault_ == "kill" || fault_ == "exec") shared_->gone = true;
    if (fault_ == "stop") std::raise(SIGSTOP);
    if (fault_ == "kill") std::raise(SIGKILL);
    if (fault_ == "exec") execl("/bin/sleep", "sleep", "2", nullptr);
    if (fault_ == "sleep") sleep(3);
    if (fault_ == "fork") {
      const pid_t child = fork();
      if (child == 0) {
        sleep(3);
        _exit(0);
      }
      EXPECT(child > 0 && waitpid(child, nullptr, 0) == child);
    }
    if (fault_ == "skip" || fault_ == "late" || fault_ == "query" || fault_ == "two" || fault_ == "both") come_late();
    if (fault_ == "late") sleep(4);
  }

  // Until another rank has given up or loaded its module, as a program that reads its data for too long.
  void come_late() const {
    const Generation& now = shared_->generations[generation_];
    for (unsigned slept = 0; slept < kSleepsFor * 100 && now.given_up == 0 && !now.loaded; ++slept) usleep(10 * 1000);
  }

  // All ranks go on with the first step that one of them has not done. False where one is gone.
  bool give_up(int& step) {
    EXPECT(generation_ + 1 < kMostGenerations);
    for (ncclComm_t* comm : {&comm_, &half_}) {
      if (*comm != nullptr) ncclCommAbort(*comm);
      *comm = nullptr;
    }
    if (fault_ == "both" || fault_ == "order") {
      ncclCommAbort(other_);
      other_ = nullptr;
    }
    Generation& now = shared_->generations[generation_];
    int first = now.step;
    while ((first == 0 || first > step + 1) && !now.step.compare_exchange_weak(first, step + 1)) {}
    ++now.given_up;
    while (now.given_up < ranks_ && !shared_->gone) usleep(1000);
    if (shared_->gone) {
      say("a rank is gone");
      return false;
    }
    ++generation_;
    come_together();
    step = first_step_ = now.step - 1;
    return true;
  }

  Shared* shared_;
  std::string fault_;
  int rank_ = number("RANK"), ranks_ = number("WORLD_SIZE"), generation_ = 0, first_step_ = 0;
  Plan plan_;
  CUcontext context_ = nullptr;
  ncclComm_t comm_ = nullptr, half_ = nullptr, other_ = nullptr;
  CUstream streams_[2] = {}, other_stream_ = nullptr, joined_stream_ = nullptr;
  CUevent events_[2] = {};
  CUdeviceptr joined_word_ = 0, from_ = 0, to_ = 0, other_words_ = 0;  // the other communicator's work may last while `from_` changes
};

}  // namespace

int main(int count, char** arguments) {
  EXPECT(count >= 3 && count <= 5);
  const int seed = count > 3 ? std::atoi(arguments[3]) : 0, faults = count > 4 ? std::atoi(arguments[4]) : 1;
  EXPECT(faults >= 1 && faults + 8 <= kMostSteps);
  return Rank(lg::share<Shared>(arguments[1]), arguments[2], static_cast<unsigned>(seed), faults).run();
}
