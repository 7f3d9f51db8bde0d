// Races of two threads, or of the ranks of a job, that the order of their calls decides: `races SHAPE` passes by its ordinary timing and
// hangs in another order; `races SHAPE safe` has the same threads, streams and calls, and passes in any order.
// A line for each says the codes of its hang, of which it gets one.
// shape: release LG204
// shape: load LG202
// shape: first_use LG201 LG202
// shape: event LG208 LG299
// shape: host_function LG207
// shape: default_stream LG203 LG205
// shape: one_stream LG203
// shape: graph LG203
// shape: synchronize LG208 LG299
// shape: lock LG208 LG299
// shape: two_communicators LG208 ranks=2
// shape: rank_loads LG202 LG208 LG211 ranks=3
// build: -Wl,-rpath,$ORIGIN/../simnccl
#include "race.hpp"

using race::Race, race::Rank, race::ToOpen;

namespace {

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
  static int bytes[1024];
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

const race::Shapes kShapes = {
    {"release", release},       {"load", load},   {"first_use", first_use},     {"event", event}, {"host_function", host_function},
    {"default_stream", default_stream}, {"one_stream", one_stream}, {"graph", graph}, {"synchronize", synchronize}, {"lock", lock}};
const race::ShapesOfRanks kShapesOfRanks = {
    {"two_communicators", {2, two_communicators}}, {"rank_loads", {3, rank_loads}}};

}  // namespace

int main(int count, char** arguments) { return race::run_shape(kShapes, kShapesOfRanks, count, arguments); }
