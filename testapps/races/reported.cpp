// Races after public reports of hangs, in the form of races.cpp: `reported SHAPE` passes by its ordinary timing, `reported SHAPE safe` in any order.
// A line for each says the codes of its hang, of which it gets one.
// shape: event_again LG203
// shape: callback_lock LG207
// shape: unload LG204
// shape: graph_host_node LG204 LG207
// shape: cold_producer LG202
// shape: ring_and_reduce LG208 ranks=3
// build: -Wl,-rpath,$ORIGIN/../simnccl
#include "race.hpp"

using race::Race, race::Rank, race::ToOpen;

namespace {

// An event is used again: it may be recorded behind the wait before or after another stream has waited for it.
void event_again(const Race& r) {
  const CUevent used = lg::event();
  CK(cuEventRecord(used, r.second));
  const auto wait = [&] { CK(cuStreamWaitEvent(r.first, used, 0)); };
  const auto write = [&] { CK(cuStreamWriteValue32(r.first, r.word.device, 1, 0)); };
  r.run([&] { r.safe ? (write(), wait()) : (wait(), write()); },
        [&] { r.waits_on(r.second), CK(cuEventRecord(used, r.second)), r.finish(r.second); });
}

// A host function takes the lock that a thread holds over its steps, as Python code in a callback takes the interpreter's.
void callback_lock(const Race& r) {
  static std::mutex mutex;
  const CUfunction busy = lg::function(r.code, "busy_for");
  const auto take = [](void*) { const std::lock_guard<std::mutex> hold(mutex); };
  r.run([&] { CK(cuLaunchHostFunc(r.first, take, nullptr)); },
        [&] {
          for (int i = 0; i < 4; ++i) {
            std::unique_lock<std::mutex> hold(mutex);
            CK(lg::launch_one(busy, r.first, lg::ms(5)));
            if (r.safe) hold.unlock();
            r.finish(r.first);
          }
        });
}

// A garbage collector unloads a module on its own thread, which has other work to do.
void unload(const Race& r) {
  const CUmodule garbage = lg::module("corpus_other");
  r.run([&] { r.in_order([&] { r.store(); }, [&] { CK(cuModuleUnload(garbage)); }); }, [&] { r.spins_on(r.first), r.finish(r.first); });
}

// A graph's host node waits for a message of a thread that frees pinned memory.
void graph_host_node(const Race& r) {
  static ToOpen message;
  void* pinned;
  CK(cuMemHostAlloc(&pinned, 4096, 0));
  CUDA_HOST_NODE_PARAMS call{};
  call.fn = ToOpen::wait, call.userData = &message;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec ready;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddHostNode(&node, graph, nullptr, 0, &call));
  CK(cuGraphInstantiate(&ready, graph, 0));
  r.run([&] { r.in_order([] { ToOpen::open(&message); }, [&] { CK(cuMemFreeHost(pinned)); }); },
        [&] { CK(cuGraphLaunch(ready, r.first)), r.finish(r.first); });
}

// A kernel waits for another one that its own thread launches for the first time.
void cold_producer(const Race& r) {
  const CUkernel produce = lg::kernel(lg::library("corpus_other"), "other_set");
  if (r.safe) CK(lg::launch_one(produce, r.second, r.counter.device)), r.finish(r.second);
  r.run([&] { CK(lg::launch_one(produce, r.second, r.word.device)); }, [&] { r.spins_on(r.first), r.finish(r.first); });
}

// The ranks pass data around on one communicator and reduce it on another one, from two threads of each.
void ring_and_reduce(const Race& r, Rank& rank) {
  const auto words = reinterpret_cast<void*>(r.scratch);
  const auto pass_around = [&](CUstream on) {
    const auto stream = reinterpret_cast<cudaStream_t>(on);
    NCCL(ncclGroupStart);
    NCCL(ncclSend, words, 4, ncclFloat32, (rank.number + 1) % rank.count, rank.communicators[1], stream);
    NCCL(ncclRecv, words, 4, ncclFloat32, (rank.number + rank.count - 1) % rank.count, rank.communicators[1], stream);
    NCCL(ncclGroupEnd);
  };
  pass_around(r.blocking), r.finish(r.blocking);
  r.run([&] { pass_around(r.safe ? r.second : r.first); }, [&] { rank.reduce(0, r.scratch, r.first), r.finish(r.first), r.finish(r.second); });
}

const race::Shapes kShapes = {{"event_again", event_again}, {"callback_lock", callback_lock},     {"unload", unload},
                              {"graph_host_node", graph_host_node}, {"cold_producer", cold_producer}};
const race::ShapesOfRanks kShapesOfRanks = {{"ring_and_reduce", {3, ring_and_reduce}}};

}  // namespace

int main(int count, char** arguments) { return race::run_shape(kShapes, kShapesOfRanks, count, arguments); }
