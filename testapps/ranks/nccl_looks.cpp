// A rank that looks at the results of two communicators, also after a look has failed: each line says what the program was answered.
//
//   RANK=N WORLD_SIZE=2 nccl_looks FILE HOW     FILE: what the ranks share
//
// Each communicator has an all-reduce on a stream of its own, for which the second rank does not come. Under `--on-hang revoke` no look at such work is
// answered with success before the rank has ended the communicator: the memory has no sum.
//
//   destructor  a destructor releases memory, and ignores the error; then the streams, and a copy to the host
//   streams     both streams, the second one once the first has failed
//   events      an event behind each collective
//   queries     both streams, by queries
//   batch       a batch of copies to pageable memory on the first stream, twice before the collective and twice behind it
//   joined      a stream that waits for the first collective's event, and then one that is made to wait for the second's after the first look
//   context     the context, twice
//   threads     a thread for each stream, one of which queries
//   other       a stream that is behind no collective, once the first has failed
//   ended       the first communicator is ended before the last look
//   later       after the first look, a host function, a copy, a write of a value and a graph that would tell by memory alone; then a host function on a stream
//               that is behind no collective, and on the first one once its communicator has ended
//   host        a host function behind the first collective wakes the thread
//   mapped      a copy behind the first collective wakes the thread, which looks at memory
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "session.hpp"
#include "shared.hpp"

namespace {

struct Shared {
  std::atomic<bool> has_id, ended;
  ncclUniqueId id;
};

constexpr int kRanks = 2;
constexpr float kSum = 3;

struct Released {
  CUdeviceptr memory = 0;
  ~Released() { cuMemFree(memory); }
};

class Looks {
 public:
  Looks(Shared* shared, int rank) : shared_(shared), context_(lg::open_session().context) {
    for (CUstream& stream : streams_) CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CK(cuMemAlloc(&from_, sizeof(float)));
    CK(cuMemAlloc(&sums_, 2 * sizeof(float)));
    CK(cuMemAlloc(&other_, sizeof(float)));
    CK(cuMemAlloc(&scratch_, 4096));
    void* words = nullptr;
    CK(cuMemHostAlloc(&words, 2 * sizeof(float), CU_MEMHOSTALLOC_DEVICEMAP));
    words_ = static_cast<volatile float*>(words);
    words_[0] = words_[1] = 0;
    const float own = static_cast<float>(rank + 1);
    CK(cuMemcpyHtoD(from_, &own, sizeof own));
    if (rank == 0) EXPECT(ncclGetUniqueId(&shared->id) == ncclSuccess);
    if (rank == 0) shared->has_id = true;
    while (!shared->has_id) usleep(1000);
    EXPECT(ncclCommInitRank(&comms_[0], kRanks, shared->id, rank) == ncclSuccess);
    EXPECT(ncclCommSplit(comms_[0], 0, rank, &comms_[1], nullptr) == ncclSuccess);
    for (int i = 0; i < 2; ++i) reduce(i);
    for (CUstream stream : streams_) CK(cuStreamSynchronize(stream));
    CK(cuMemsetD8(sums_, 0, 2 * sizeof(float)));
    CK(cuCtxSynchronize());
  }

  void wait_for_the_other() const {
    for (int slept = 0; slept < 3000 && !shared_->ended; ++slept) usleep(10 * 1000);
  }

  void look(const std::string& how) {
    for (int i = 0; how == "batch" && i < 2; ++i) say("copy 0", batch(streams_[0]));
    reduce(0);
    reduce(1);
    for (int i = 0; i < 2; ++i) CK(cuEventRecord(events_[i], streams_[i]));
    if (how == "destructor") {
      { const Released released{scratch_}; }
      say("stream 0", cuStreamSynchronize(streams_[0]));
      say("stream 1", cuStreamSynchronize(streams_[1]));
      float sums[2] = {};
      say("copy", cuMemcpyDtoH(sums, sums_, sizeof sums));
    }
    if (how == "streams" || how == "other" || how == "ended") {
      say("stream 0", cuStreamSynchronize(streams_[0]));
      if (how == "other") say("stream 2", other_work());
      if (how == "ended") ncclCommAbort(comms_[0]);
      if (how == "ended") say("stream 0", cuStreamSynchronize(streams_[0]));
      say("stream 1", cuStreamSynchronize(streams_[1]));
    }
    if (how == "events") {
      say("event 0", cuEventSynchronize(events_[0]));
      say("event 1", cuEventQuery(events_[1]));
    }
    if (how == "queries") {
      say("stream 0", polled(streams_[0]));
      say("stream 1", polled(streams_[1]));
    }
    if (how == "batch") {
      say("stream 0", cuStreamSynchronize(streams_[0]));
      for (int i = 0; i < 2; ++i) say("copy 0", batch(streams_[0]));
    }
    if (how == "joined") {
      CK(cuStreamWaitEvent(streams_[2], events_[0], 0));
      CK(cuMemsetD8Async(other_, 1, sizeof(float), streams_[2]));
      say("stream 2", cuStreamSynchronize(streams_[2]));
      CK(cuStreamWaitEvent(streams_[3], events_[1], 0));
      CK(cuMemsetD8Async(other_, 1, sizeof(float), streams_[3]));
      say("stream 3", cuStreamSynchronize(streams_[3]));
    }
    if (how == "context") {
      say("context", cuCtxSynchronize());
      say("context", cuCtxSynchronize());
    }
    if (how == "threads") {
      std::thread other(in_a_thread([&] { say("stream 1", polled(streams_[1])); }));
      const CUresult own = cuStreamSynchronize(streams_[0]);
      other.join();
      say("stream 0", own);
    }
    if (how == "later") {
      say("stream 0", cuStreamSynchronize(streams_[0]));
      submit_what_tells_memory();
      usleep(100 * 1000);
      std::printf("told: %d\n", woken_ || words_[1] != 0);
      say("host function on stream 2", wakes_behind(streams_[2]));
      ncclCommAbort(comms_[0]);
      say("host function on stream 0", wakes_behind(streams_[0]));
    }
    if (how == "host") {
      CK(cuMemcpyDtoHAsync(const_cast<float*>(words_), sums_, sizeof(float), streams_[0]));
      CK(cuLaunchHostFunc(streams_[0], wakes, &woken_));
      CK(cuEventRecord(events_[0], streams_[0]));
      std::thread waits([this] {
        while (!woken_) usleep(1000);
        look_at_memory(words_[0]);
      });
      say("event 0", cuEventSynchronize(events_[0]));
      std::_Exit(5);
    }
    if (how == "mapped") {
      const float one = 1;
      CK(cuMemcpyHtoDAsync(other_, &one, sizeof one, streams_[0]));
      CK(cuMemcpyDtoHAsync(const_cast<float*>(words_), sums_, sizeof(float), streams_[0]));
      CK(cuMemcpyDtoHAsync(const_cast<float*>(words_ + 1), other_, sizeof(float), streams_[0]));
      while (words_[1] == 0) usleep(1000);
      look_at_memory(words_[0]);
    }
  }

  void end(bool has_ended_one) {
    shared_->ended = true;
    for (int i = has_ended_one ? 1 : 0; i < 2; ++i) ncclCommAbort(comms_[i]);
    for (CUstream stream : streams_) say("at the end", cuStreamSynchronize(stream));
  }

 private:
  static void say(const char* what, CUresult result) {
    std::printf("%s: %d\n", what, static_cast<int>(result));
    std::fflush(stdout);
  }

  static void look_at_memory(float sum) {
    std::printf("memory: %s\n", sum == kSum ? "the sum" : "SILENTLY WRONG");
    std::fflush(stdout);
  }

  void reduce(int i) const {
    const auto to = reinterpret_cast<void*>(sums_ + static_cast<unsigned>(i) * sizeof(float));
    EXPECT(ncclAllReduce(reinterpret_cast<void*>(from_), to, 1, ncclFloat32, ncclSum, comms_[i], streams_[i]) == ncclSuccess);
  }

  static void CUDA_CB wakes(void* woken) { static_cast<std::atomic<bool>*>(woken)->store(true); }

  CUresult wakes_behind(CUstream stream) {
    woken_ = false;
    const CUresult submitted = cuLaunchHostFunc(stream, wakes, &woken_);
    for (int slept = 0; submitted == CUDA_SUCCESS && !woken_ && slept < 10000; ++slept) usleep(1000);
    return submitted;
  }

  void submit_what_tells_memory() {
    CUdeviceptr word = 0;
    CK(cuMemHostGetDevicePointer(&word, const_cast<float*>(words_ + 1), 0));
    const CUDA_HOST_NODE_PARAMS node{wakes, &woken_};
    CUgraph graph = nullptr;
    CUgraphNode added = nullptr;
    CUgraphExec executable = nullptr;
    CK(cuGraphCreate(&graph, 0));
    CK(cuGraphAddHostNode(&added, graph, nullptr, 0, &node));
    CK(cuGraphInstantiate(&executable, graph, 0));
    const float one = 1;
    CK(cuMemcpyHtoDAsync(other_, &one, sizeof one, streams_[0]));
    say("host function", cuLaunchHostFunc(streams_[0], wakes, &woken_));
    say("copy", cuMemcpyDtoHAsync(const_cast<float*>(words_ + 1), other_, sizeof(float), streams_[0]));
    say("value", cuStreamWriteValue32(streams_[0], word, 1, 0));
    say("graph", cuGraphLaunch(executable, streams_[0]));
  }

  CUresult other_work() const {
    CK(cuMemsetD8Async(other_, 1, sizeof(float), streams_[2]));
    return cuStreamSynchronize(streams_[2]);
  }

  CUresult batch(CUstream stream) {
    float there = 0;
    CUdeviceptr to = reinterpret_cast<CUdeviceptr>(&there), at = sums_;
    size_t bytes = sizeof there, attributes = 0;
    CUmemcpyAttributes in_order{};
    in_order.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return cuMemcpyBatchAsync(&to, &at, &bytes, 1, &in_order, &attributes, 1, stream);
  }

  static CUresult polled(CUstream stream) {
    CUresult answer = CUDA_ERROR_NOT_READY;
    while ((answer = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) usleep(1000);
    return answer;
  }

  std::function<void()> in_a_thread(std::function<void()> body) const {
    return [this, body] {
      CK(cuCtxSetCurrent(context_));
      body();
    };
  }

  Shared* shared_;
  CUcontext context_;
  CUstream streams_[4] = {};
  CUevent events_[2] = {};
  CUdeviceptr from_ = 0, sums_ = 0, other_ = 0, scratch_ = 0;
  volatile float* words_ = nullptr;
  ncclComm_t comms_[2] = {};
  std::atomic<bool> woken_ = false;
};

}  // namespace

int main(int count, char** arguments) {
  EXPECT(count == 3);
  const char* rank = std::getenv("RANK");
  const std::string how = arguments[2];
  Looks looks(lg::share<Shared>(arguments[1]), std::atoi(rank));
  if (*rank == '1') {
    looks.wait_for_the_other();
    return 0;
  }
  looks.look(how);
  looks.end(how == "ended" || how == "later");
  return 0;
}
