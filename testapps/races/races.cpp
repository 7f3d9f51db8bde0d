// Races of two threads, or of the ranks of a job, that the order of their calls decides: `races SHAPE` passes by its ordinary timing and
// hangs in another order; `races SHAPE safe` has the same threads, streams and calls, and passes in any order.
//
// In each shape the worker's part comes first, because the main thread begins its own 100 ms after the worker has begun, of a rank 250. Ranks are processes of this program.
// build: -Wl,-rpath,$ORIGIN/../simnccl
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "../common/shared.hpp"
#include "../corpus/corpus.hpp"
#include "nccl.h"

namespace {

// Several processes take longer on a busy machine.
const unsigned kHeadStartMs = std::getenv("RANK") != nullptr ? 250 : 100;

// What both threads of a process use.
struct Race {
  const bool safe;
  const lg::Session session = lg::open_session();
  const lg::MappedWord word = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  const CUdeviceptr scratch = lg::device_words(1024);
  const CUstream first = lg::stream(), second = lg::stream(), blocking = lg::stream(CU_STREAM_DEFAULT);
  const CUevent event = lg::event();

  // One part runs before the other in the safe form, and behind it in the other.
  void in_order(const std::function<void()>& harmless_first, const std::function<void()>& then) const {
    (safe ? harmless_first : then)();
    (safe ? then : harmless_first)();
  }
  void store() const { *word.host = 1; }
  void spins_on(CUstream stream) const { CK(lg::launch_one(spin, stream, word.device)); }
  void waits_on(CUstream stream) const { CK(cuStreamWaitValue32(stream, word.device, 1, CU_STREAM_WAIT_VALUE_EQ)); }
  void finish(CUstream stream) const { CK(cuStreamSynchronize(stream)); }

  void run(const std::function<void()>& worker, const std::function<void()>& main) const {
    pthread_setname_np(pthread_self(), "main");
    // What a program does beside.
    lg::nap(kHeadStartMs);
    std::atomic<bool> has_begun{false};
    std::thread thread = lg::thread_in(session.context, [&] {
      pthread_setname_np(pthread_self(), "worker");
      has_begun = true;
      CK(cuEventRecord(event, second));
      worker();
    });
    while (!has_begun) std::this_thread::yield();
    lg::nap(kHeadStartMs);
    main();
    thread.join();
    CK(cuCtxSynchronize());
    std::puts("passed");
  }
};

struct ToOpen {
  lg::Gate gate;
  static void open(void* opaque) {
    lg::Gate& gate = static_cast<ToOpen*>(opaque)->gate;
    const std::lock_guard<std::mutex> hold(gate.mutex);
    gate.open = true;
    gate.opened.notify_all();
  }
  static void wait(void* opaque) { lg::wait_at(static_cast<ToOpen*>(opaque)->gate); }
};

// A graph of one memory operation on the word.
CUgraphExec graph_of(const Race& race, bool waits) {
  CUstreamBatchMemOpParams operation{};
  operation.operation = waits ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
  (waits ? operation.waitValue.address : operation.writeValue.address) = race.word.device;
  (waits ? operation.waitValue.value : operation.writeValue.value) = 1;
  CUDA_BATCH_MEM_OP_NODE_PARAMS operations{race.session.context, 1, &operation, 0};
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec ready;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &operations));
  CK(cuGraphInstantiate(&ready, graph, 0));
  return ready;
}

// The worker makes a call that waits for the context's work, and lets that work end.
void blocked_in(const Race& r, const std::function<void()>& call) {
  r.run([&] { r.in_order([&] { r.store(); }, call); }, [&] { r.spins_on(r.first), r.finish(r.first); });
}

// --- a process ---

void release(const Race& r) {
  r.run([&] { r.in_order([&] { r.store(); }, [&] { CK(cuMemFree(r.scratch)); }); }, [&] { r.waits_on(r.first), r.finish(r.first); });
}

void load(const Race& r) {
  blocked_in(r, [] { lg::module("corpus_other"); });
}

void first_use(const Race& r) {
  const CUkernel cold = lg::kernel(lg::library("corpus"), "step");
  blocked_in(r, [&] { CK(lg::launch_one(cold, r.second, r.counter.device)), r.finish(r.second); });
}

void event(const Race& r) {
  const CUevent done = lg::event();
  r.run([&] { r.in_order([&] { r.store(); }, [&] { CK(cuEventSynchronize(done)); }); },
        [&] { r.spins_on(r.first), CK(cuEventRecord(done, r.first)), r.finish(r.first); });
}

void host_function(const Race& r) {
  static ToOpen to_open;
  r.run([&] { r.safe ? ToOpen::open(&to_open) : (void)cuLaunchHostFunc(r.second, ToOpen::open, &to_open), r.finish(r.second); },
        [&] { CK(cuLaunchHostFunc(r.first, ToOpen::wait, &to_open)), r.finish(r.first); });
}

void default_stream(const Race& r) {
  static int bytes[256];
  r.run([&] { CK(cuMemcpyHtoD(r.scratch, bytes, sizeof bytes)), r.store(); },
        [&] { r.waits_on(r.safe ? r.first : r.blocking), r.finish(r.safe ? r.first : r.blocking); });
}

void one_stream(const Race& r) {
  r.run([&] { CK(cuStreamWriteValue32(r.safe ? r.second : r.first, r.word.device, 1, 0)); },
        [&] { r.waits_on(r.first), r.finish(r.first); });
}

void graph(const Race& r) {
  const CUgraphExec waits = graph_of(r, true), writes = graph_of(r, false);
  r.run([&] { CK(cuGraphLaunch(writes, r.safe ? r.second : r.first)); }, [&] { CK(cuGraphLaunch(waits, r.first)), r.finish(r.first); });
}

void synchronize(const Race& r) {
  blocked_in(r, [] { CK(cuCtxSynchronize()); });
}

void lock(const Race& r) {
  static std::mutex mutex;
  const auto store = [&] {
    const std::lock_guard<std::mutex> hold(mutex);
    r.store();
  };
  r.run([&] { r.safe ? r.store() : store(); },
        [&] {
          const std::lock_guard<std::mutex> hold(mutex);
          r.spins_on(r.first), r.finish(r.first);
        });
}

// --- ranks ---

struct Shared {
  std::atomic<bool> has_ids, may_join;
  ncclUniqueId ids[2];
};

struct Rank {
  int number, count;
  Shared* shared;
  ncclComm_t communicators[2];

  void join() {
    if (number == 0) {
      for (ncclUniqueId& id : shared->ids) EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
      shared->has_ids = true;
    }
    while (!shared->has_ids) lg::nap(1);
    for (int n = 0; n < 2; ++n) EXPECT(ncclCommInitRank(&communicators[n], count, shared->ids[n], number) == ncclSuccess);
  }
  void reduce(int n, CUdeviceptr memory, CUstream stream) {
    const auto words = reinterpret_cast<void*>(memory);
    EXPECT(ncclAllReduce(words, words, 4, ncclFloat32, ncclSum, communicators[n], reinterpret_cast<cudaStream_t>(stream)) == ncclSuccess);
  }
};

// Two threads of each rank use a communicator each; on one stream, the ranks have to agree on the order.
void two_communicators(const Race& r, Rank& rank) {
  r.run([&] { rank.reduce(0, r.scratch, r.first); },
        [&] { rank.reduce(1, r.scratch, r.safe ? r.second : r.first), r.finish(r.first), r.finish(r.second); });
}

// The last rank loads before it lets the others join a collective, which it has not begun by then.
void rank_loads(const Race& r, Rank& rank) {
  const bool is_last = rank.number + 1 == rank.count;
  r.run([&] { if (is_last) r.in_order([&] { rank.shared->may_join = true; }, [] { lg::module("corpus_other"); }); },
        [&] {
          while (!is_last && !rank.shared->may_join) lg::nap(1);
          rank.reduce(0, r.scratch, r.first), r.finish(r.first);
        });
}

const std::map<std::string, void (*)(const Race&)> kShapes = {
    {"release", release},       {"load", load},   {"first_use", first_use},     {"event", event}, {"host_function", host_function},
    {"default_stream", default_stream}, {"one_stream", one_stream}, {"graph", graph}, {"synchronize", synchronize}, {"lock", lock}};
const std::map<std::string, std::pair<int, void (*)(const Race&, Rank&)>> kShapesOfRanks = {
    {"two_communicators", {2, two_communicators}}, {"rank_loads", {3, rank_loads}}};

int start_ranks(int count, char** arguments) {
  const std::string memory = "/proc/self/fd/" + std::to_string(memfd_create("races", 0));
  setenv("RACES_MEMORY", memory.c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
  for (int rank = 0; rank < count; ++rank) {
    if (fork() != 0) continue;
    setenv("RANK", std::to_string(rank).c_str(), 1);
    execv("/proc/self/exe", arguments);
    std::_Exit(127);
  }
  int status = 0, worst = 0;
  while (wait(&status) > 0) worst |= status;
  return worst == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string shape = count > 1 ? arguments[1] : "";
  const bool safe = count > 2 && std::string(arguments[2]) == "safe";
  if (const auto one = kShapes.find(shape); one != kShapes.end()) return one->second(Race{safe}), 0;
  const auto job = kShapesOfRanks.find(shape);
  if (job == kShapesOfRanks.end()) return std::fputs("usage: races SHAPE [safe]\n", stderr), 2;
  const char *number = std::getenv("RANK"), *memory = std::getenv("RACES_MEMORY");
  if (memory == nullptr) return start_ranks(job->second.first, arguments);
  const Race race{safe};
  Rank rank{std::atoi(number), job->second.first, lg::share<Shared>(memory), {}};
  rank.join();
  job->second.second(race, rank);
  return 0;
}
