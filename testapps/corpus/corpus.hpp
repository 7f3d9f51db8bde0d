// What the programs of the corpus are written with: images, streams, threads of their own, and the pace.
//
// All programs are linked into one, which runs the scenario that it is called by the name of (main.cpp). A file NAME.cpp holds one, as
// SCENARIO(NAME) { ... } in the place of main; what else it defines is static.
//
// The pace T is the threshold that a guard is run with, in LG_SCALE_MS (600 where it is not said): slow programs last so many T.
// A function of a module is loaded when it is got; a kernel of a library is cold until something loads it. Must not hide a call that a
// program is about.
#pragma once
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../common/image.hpp"
#include "../common/session.hpp"

namespace lg {

// One per file of the corpus, in a list that is complete before main.
struct Scenario {
  const char* name;
  int (*run)();
  const Scenario* next;
  static inline const Scenario* first = nullptr;
  Scenario(const char* name, int (*run)()) : name(name), run(run), next(first) { first = this; }
};

inline unsigned pace_ms() {
  const char* text = std::getenv("LG_SCALE_MS");
  const int read = text != nullptr ? std::atoi(text) : 0;
  return read > 0 ? static_cast<unsigned>(read) : 600;
}

// So many T, for a kernel that lasts.
inline unsigned long long pace_ns(double times) { return static_cast<unsigned long long>(times * pace_ms() * 1e6); }

// So many T pass on the calling thread.
inline void pass(double times) { std::this_thread::sleep_for(std::chrono::nanoseconds(pace_ns(times))); }

// For what is short whatever the pace: nanoseconds for a kernel that lasts, and a nap of the calling thread.
constexpr unsigned long long ms(unsigned long long count) { return count * 1000000; }
inline void nap(unsigned milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// Until another thread is in its call, or the device in its work: also on a busy machine.
inline void head_start() { nap(250); }

// What one thread waits at until another opens it.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
};

inline void wait_at(Gate& gate) {
  std::unique_lock<std::mutex> hold(gate.mutex);
  gate.opened.wait(hold, [&] { return gate.open; });
}

// The driver copies the image of a module while it loads it, and may read a library's later, so the latter is kept.
inline CUmodule module(const char* name) {
  const auto code = image(name);
  CUmodule loaded;
  CK(cuModuleLoadData(&loaded, code.data()));
  return loaded;
}

inline CUfunction function(CUmodule from, const char* name) {
  CUfunction got;
  CK(cuModuleGetFunction(&got, from, name));
  return got;
}

inline CUlibrary library(const char* name) {
  static auto* const kept = new std::vector<std::vector<char>>;
  kept->push_back(image(name));
  CUlibrary loaded;
  CK(cuLibraryLoadData(&loaded, kept->back().data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  return loaded;
}

inline CUkernel kernel(CUlibrary from, const char* name) {
  CUkernel got;
  CK(cuLibraryGetKernel(&got, from, name));
  return got;
}

template <class... Arguments>
CUresult launch_one(CUkernel kernel, CUstream stream, Arguments... arguments) {
  return launch_one(reinterpret_cast<CUfunction>(kernel), stream, arguments...);
}

inline CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream made;
  CK(cuStreamCreate(&made, flags));
  return made;
}

inline CUevent event() {
  CUevent made;
  CK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
  return made;
}

// Device memory, all zero.
inline CUdeviceptr device_words(size_t count) {
  CUdeviceptr memory;
  CK(cuMemAlloc(&memory, count * sizeof(cuuint32_t)));
  CK(cuMemsetD32(memory, 0, count));
  CK(cuCtxSynchronize());
  return memory;
}

// As many blocks of 1,024 threads as the device holds at once.
inline unsigned blocks_that_fill_the_device() {
  int multiprocessors = 0, threads = 0;
  CK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  CK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
  return static_cast<unsigned>(multiprocessors * (threads / 1024));
}

// A grid that fills the device.
template <class Argument>
CUresult launch_everywhere(CUfunction function, CUstream stream, Argument argument) {
  void* parameters[] = {&argument};
  return cuLaunchKernel(function, blocks_that_fill_the_device(), 1, 1, 1024, 1, 1, 0, stream, parameters, nullptr);
}

// A cooperative grid of so many blocks of 1,024 threads.
template <class... Arguments>
CUresult launch_cooperative(CUfunction function, unsigned blocks, CUstream stream, Arguments... arguments) {
  void* parameters[] = {static_cast<void*>(&arguments)..., nullptr};
  return cuLaunchCooperativeKernel(function, blocks, 1, 1, 1024, 1, 1, 0, stream, parameters);
}

// A thread with the context current.
template <class Body>
std::thread thread_in(CUcontext context, Body body) {
  return std::thread([context, body = std::move(body)]() mutable {
    CK(cuCtxSetCurrent(context));
    body();
  });
}

// PTX of so many kernels that do nothing, for a driver to compile.
inline std::string ptx_of(unsigned kernels) {
  std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n";
  for (unsigned i = 0; i < kernels; ++i) text += ".visible .entry compiled" + std::to_string(i) + "()\n{\n  ret;\n}\n";
  return text;
}

// Copies pinned memory to the device again and again, as a loader of data does.
class Copier {
 public:
  explicit Copier(CUcontext context) : to_(device_words(1024)), stream_(lg::stream()) {
    CK(cuMemHostAlloc(&from_, 4096, 0));
    thread_ = thread_in(context, [this] {
      while (!stop_) {
        CK(cuMemcpyHtoDAsync(to_, from_, 4096, stream_));
        CK(cuStreamSynchronize(stream_));
        ++copies_;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    while (copies_ < 10) std::this_thread::yield();
  }
  void join() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> copies_{0};
  void* from_ = nullptr;
  CUdeviceptr to_;
  CUstream stream_;
  std::thread thread_;
};

// Loaded kernels in a session of their own: one spins until the host sets a word, another needs more local memory a thread than a context has.
struct LocalMemory {
  const CUmodule code = (open_session(), module("corpus"));
  const CUfunction spin = function(code, "spin_until"), large = function(code, "many_locals");
  const MappedWord stop = mapped_word(), counter = mapped_word();
};

}  // namespace lg

#define SCENARIO(name)                                                 \
  static int scenario_##name();                                        \
  static const lg::Scenario registered_##name{#name, scenario_##name}; \
  static int scenario_##name()
