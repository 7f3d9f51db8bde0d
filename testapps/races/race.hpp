// The two threads and the ranks that the races are made of, and their programs' main function.
//
// In each shape the worker's part comes first, because the main thread begins its own 100 ms after the worker has begun, of a rank 250. Ranks are processes of the program.
#pragma once
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "../common/shared.hpp"
#include "../corpus/corpus.hpp"
#include "nccl.h"

namespace race {

// Several processes take longer on a busy machine.
inline const unsigned kHeadStartMs = std::getenv("RANK") != nullptr ? 250 : 100;

// A program without ranks has the number 0.
inline int rank() {
  const char* number = std::getenv("RANK");
  return number != nullptr ? std::atoi(number) : 0;
}

// A function of the machine's NCCL, or of the simulated one. It is looked up, so that the shapes of a process need no NCCL.
template <class Function>
Function* nccl(const char* name) {
  static void* const library = dlopen("libnccl.so.2", RTLD_NOW);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::_Exit(4);
  return reinterpret_cast<Function*>(found);
}
#define NCCL(name, ...) EXPECT(race::nccl<decltype(name)>(#name)(__VA_ARGS__) == ncclSuccess)

// What both threads of a process use.
struct Race {
  const bool safe;
  const lg::Session session = lg::open_session(rank());
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

struct Shared {
  std::atomic<bool> has_ids, may_join;
  ncclUniqueId ids[2];
};

struct Rank {
  int number, count;
  Shared* shared;
  ncclComm_t communicators[2];

  // Also uses each communicator once: NCCL loads and connects then.
  void join(const Race& race) {
    int devices;
    CK(cuDeviceGetCount(&devices));
    // NCCL refuses two ranks of one host on a device.
    if (count > devices) setenv("NCCL_HOSTID", std::getenv("RANK"), 1);
    if (number == 0) {
      for (ncclUniqueId& id : shared->ids) NCCL(ncclGetUniqueId, &id);
      shared->has_ids = true;
    }
    while (!shared->has_ids) lg::nap(1);
    for (int n = 0; n < 2; ++n) NCCL(ncclCommInitRank, &communicators[n], count, shared->ids[n], number);
    for (int n = 0; n < 2; ++n) reduce(n, race.scratch, race.blocking), race.finish(race.blocking);
  }
  void reduce(int n, CUdeviceptr memory, CUstream stream) {
    const auto words = reinterpret_cast<void*>(memory);
    NCCL(ncclAllReduce, words, words, 4, ncclFloat32, ncclSum, communicators[n], reinterpret_cast<cudaStream_t>(stream));
  }
};

using Shapes = std::map<std::string, void (*)(const Race&)>;
using ShapesOfRanks = std::map<std::string, std::pair<int, void (*)(const Race&, Rank&)>>;

inline int start_ranks(int count, char** arguments) {
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

// The program's main function: the first argument names the shape.
inline int run_shape(const Shapes& shapes, const ShapesOfRanks& shapes_of_ranks, int count, char** arguments) {
  const std::string shape = count > 1 ? arguments[1] : "";
  const bool safe = count > 2 && std::string(arguments[2]) == "safe";
  if (const auto one = shapes.find(shape); one != shapes.end()) return one->second(Race{safe}), 0;
  const auto job = shapes_of_ranks.find(shape);
  if (job == shapes_of_ranks.end()) return std::fprintf(stderr, "usage: %s SHAPE [safe]\n", arguments[0]), 2;
  const char* memory = std::getenv("RACES_MEMORY");
  if (memory == nullptr) return start_ranks(job->second.first, arguments);
  const Race race{safe};
  Rank rank{race::rank(), job->second.first, lg::share<Shared>(memory), {}};
  rank.join(race);
  job->second.second(race, rank);
  return 0;
}

}  // namespace race
