// Plays a program of the oracle: a list of steps, a line each, against the driver that it finds by dlopen, as programs do.
//
//   player PROGRAM TRUTH
//   player PROGRAM TRUTH FIRST COUNT [all]
//   RANK=N player PROGRAM TRUTH SHARED MEMBERS...    a rank of a job: see ranks.hpp
//
// Writes into the file TRUTH, on the simulated driver, that the program has completed, or that it is stuck for ever, with who waits for whom: what the
// driver shows (testapps/simdriver/waits.hpp) and what the threads of this program are at. testapps/oracle/src/program.rs has the steps.
//
// At the end standard output has what each thread's steps gave, a line a thread. A step that fails ends its thread, and the exit code is then 3.
//
// With FIRST and COUNT it plays the program in orders (order.hpp), each in a child, from the order FIRST on until one of COUNT is stuck in a driver call, or with
// `all` every one. TRUTH then has how many completed, were stuck, were so in a call, and did neither, and an order that was stuck, in a call where one was;
// TRUTH.stuck has that one's truth. In an order one thread takes a step at a time, sleeps and the lengths of kernels do not count, and a kernel that waits for no word ends when that is drawn. A real driver has no orders.
//
// A rank of a job that is still may still be moved by another one. It says so for as long as it is still, and src/joined.rs asks all ranks.
//
// TRUTH.begun says that the first step comes next. A real driver does not say who waits for whom, so TRUTH then has no word of a program that is stuck.
//
// Must not know of the guard.
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../common/image.hpp"
#include "../simdriver/waits.hpp"
#include "order.hpp"
#include "ranks.hpp"

namespace {

#define NAME_OF(name) #name
#define FUNCTIONS(X)                                                                                                                               \
  X(cuInit) X(cuDeviceGetName) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuStreamCreate) X(cuStreamSynchronize)         \
  X(cuStreamQuery) X(cuStreamWaitEvent) X(cuStreamWaitValue32) X(cuStreamWriteValue32) X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize)     \
  X(cuEventQuery) X(cuMemHostAlloc) X(cuMemHostGetDevicePointer) X(cuMemAlloc) X(cuMemFree) X(cuMemcpyHtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoH)   \
  X(cuMemsetD32Async) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLibraryLoadData) X(cuLibraryGetKernel) X(cuLaunchKernel)    \
  X(cuLaunchHostFunc) X(cuGetExportTable) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphInstantiateWithFlags) \
  X(cuGraphLaunch)

struct Driver {
#define MEMBER(name) decltype(&::name) name##_;
  FUNCTIONS(MEMBER)
  const lgsim::WaitsTable* waits = nullptr;
};
Driver cu;

template <class F> void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (function != nullptr) return;
  std::fprintf(stderr, "no %s\n", name);
  std::_Exit(4);
}

// The names are as the header maps them: cuMemAlloc is cuMemAlloc_v2.
#define SYMBOL_OF(name) NAME_OF(name)
void open_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::_Exit(4);
  }
#define FIND(name) find(library, SYMBOL_OF(name), cu.name##_);
  FUNCTIONS(FIND)
}

struct Step {
  uint64_t line = 0;
  std::string what;
  // By name: `stream`, `event`, `word`, `value`, ... as numbers. -1 where the step has none.
  std::map<std::string, long> with;
  long operator[](const char* name) const {
    const auto found = with.find(name);
    return found == with.end() ? -1 : found->second;
  }
};

// The word that no step of the host touches. The simulated driver has its device memory where the player can look.
constexpr size_t kDeviceWord = 3;
constexpr size_t kWords = 8, kEvents = 8, kGates = 4, kKernels = 16, kLocks = 4, kAllocations = 8;

enum class At : int { runs, in_call, at_lock, at_gate, at_word, at_join, at_turn, ended };
const char* const kAt[] = {"runs", "call", "lock", "gate", "word", "join", "turn", "ended"};

struct Thread {
  std::vector<Step> steps;
  std::vector<int> results;
  std::atomic<int> tid{0};
  std::atomic<uint64_t> line{0};
  std::atomic<At> at{At::runs};
  std::atomic<long> subject{-1};
  std::atomic<uint64_t> moves{0};
  std::atomic<long> longest_ms{0};
  sem_t turn;
  Thread() { sem_init(&turn, 0, 0); }
};

struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  std::atomic<bool> open{false};
};

struct Lock {
  std::mutex mutex;
  std::atomic<int> holder{-1};
};

std::vector<std::string> stream_kinds;
std::set<long> warm;
std::vector<Thread*> threads;
std::map<uint64_t, const Step*> by_line;
std::vector<CUstream> streams;
CUevent events[kEvents];
volatile unsigned* words[kWords];
CUdeviceptr device_words[kWords];
CUdeviceptr allocations[kAllocations];
CUdeviceptr scratch;
char* pinned;
CUkernel kernels[kKernels];
CUmodule code;
std::vector<char> code_image;
std::atomic<uint64_t> recorded[kEvents];  // by which line last
// Never destroyed: a host function may still wait at a gate while the process exits.
Gate* const gates = new Gate[kGates];
Lock* const locks = new Lock[kLocks];
std::atomic<bool> failed{false};
lg::Ranks ranks;
// Where the program is played in an order: the words by which kernels end, by the lines of their steps.
constexpr size_t kLines = 1024;
lg::Order* order = nullptr;
volatile unsigned* ends;
CUdeviceptr device_ends;

// Since 1970, as reports count.
long long unix_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }
long long now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// ---- the program's text

void read_program(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "cannot open %s\n", path);
    std::_Exit(4);
  }
  std::string text;
  for (uint64_t line = 1; std::getline(file, text); line++) {
    std::istringstream in(text);
    std::string first;
    if (!(in >> first) || first[0] == '#') continue;
    if (first == "stream") {
      std::string kind;
      in >> kind;
      stream_kinds.push_back(kind);
    } else if (first == "warm") {
      long kernel = 0;
      in >> kernel;
      warm.insert(kernel);
    } else {
      const size_t thread = std::stoul(first);
      while (threads.size() <= thread) threads.push_back(new Thread);
      Step step;
      step.line = line;
      in >> step.what;
      for (std::string word; in >> word;) step.with[word.substr(0, word.find('='))] = std::stol(word.substr(word.find('=') + 1));
      threads[thread]->steps.push_back(step);
    }
  }
  if (threads.empty()) threads.push_back(new Thread);
  for (Thread* thread : threads)
    for (const Step& step : thread->steps) by_line[step.line] = &step;
}

// ---- steps

void CUDA_CB wait_at_gate(void* gate) {
  Gate& at = *static_cast<Gate*>(gate);
  std::unique_lock<std::mutex> hold(at.mutex);
  at.opened.wait(hold, [&] { return at.open.load(); });
}
void CUDA_CB do_nothing(void*) {}

void nap(long milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
void nap_shortly() { std::this_thread::sleep_for(std::chrono::microseconds(order != nullptr ? 20 : 1000)); }

// Whether it is a kernel that ends when the order says so.
bool ends_by_order(const Step& step) { return order != nullptr && (step.what == "launch" || step.what == "graph") && step["until"] < 0; }

CUresult launch_in(CUstream stream, const Step& step) {
  const long until = step["until"], raise = step["raise"], busy = order != nullptr ? -1 : step["busy"];
  CUdeviceptr waits = until < 0 ? 0 : device_words[until], raised = raise < 0 ? 0 : device_words[raise];
  unsigned reaches = static_cast<unsigned>(step["reaches"]), to = static_cast<unsigned>(step["to"]);
  if (ends_by_order(step)) waits = device_ends + step.line * sizeof(unsigned), reaches = 1;
  unsigned long long nanoseconds = busy < 0 ? 0 : static_cast<unsigned long long>(busy) * 1000000;
  void* parameters[] = {&waits, &reaches, &nanoseconds, &raised, &to};
  return cu.cuLaunchKernel_(reinterpret_cast<CUfunction>(kernels[step["kernel"]]), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

// As a graph of one kernel, captured in a stream of its own. Both last as long as the process.
CUresult launch_graph(CUstream stream, const Step& step) {
  CUstream captured;
  CUgraph graph;
  CUgraphExec executable;
  CUresult r = cu.cuStreamCreate_(&captured, CU_STREAM_NON_BLOCKING);
  if (r == CUDA_SUCCESS) r = cu.cuStreamBeginCapture_(captured, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (r == CUDA_SUCCESS) r = launch_in(captured, step);
  if (r == CUDA_SUCCESS) r = cu.cuStreamEndCapture_(captured, &graph);
  if (r == CUDA_SUCCESS) r = cu.cuGraphInstantiateWithFlags_(&executable, graph, 0);
  return r == CUDA_SUCCESS ? cu.cuGraphLaunch_(executable, stream) : r;
}

template <class Ready> CUresult poll(Ready ready) {
  CUresult r;
  while ((r = ready()) == CUDA_ERROR_NOT_READY) nap_shortly();
  return r;
}

CUresult call(const Step& step) {
  const std::string& what = step.what;
  const long stream_at = step["stream"];
  const CUstream stream = stream_at < 0 ? nullptr : streams[stream_at];
  const CUevent event = step["event"] < 0 ? nullptr : events[step["event"]];
  if (what == "launch") return launch_in(stream, step);
  if (what == "graph") return launch_graph(stream, step);
  if (what == "record") {
    const CUresult r = cu.cuEventRecord_(event, stream);
    recorded[step["event"]] = step.line;
    return r;
  }
  if (what == "wait_event") return cu.cuStreamWaitEvent_(stream, event, 0);
  if (what == "wait_value")
    return cu.cuStreamWaitValue32_(stream, device_words[step["word"]], static_cast<cuuint32_t>(step["value"]), CU_STREAM_WAIT_VALUE_GEQ);
  if (what == "write_value") return cu.cuStreamWriteValue32_(stream, device_words[step["word"]], static_cast<cuuint32_t>(step["value"]), 0);
  if (what == "synchronize") return cu.cuStreamSynchronize_(stream);
  if (what == "synchronize_event") return cu.cuEventSynchronize_(event);
  if (what == "synchronize_context") return cu.cuCtxSynchronize_();
  if (what == "poll") return poll([&] { return cu.cuStreamQuery_(stream); });
  if (what == "poll_event") return poll([&] { return cu.cuEventQuery_(event); });
  if (what == "allocate") {
    CUdeviceptr memory;
    return cu.cuMemAlloc_(&memory, 4096);
  }
  if (what == "free") {
    CUdeviceptr& memory = allocations[step["allocation"]];
    const CUdeviceptr from = __atomic_exchange_n(&memory, 0, __ATOMIC_SEQ_CST);  // two threads may come to the same one
    return from ? cu.cuMemFree_(from) : CUDA_SUCCESS;
  }
  if (what == "load_module") {
    CUmodule module;
    return cu.cuModuleLoadData_(&module, code_image.data());
  }
  if (what == "unload_module") {
    const CUmodule module = __atomic_exchange_n(&code, nullptr, __ATOMIC_SEQ_CST);  // as with "free"
    return module ? cu.cuModuleUnload_(module) : CUDA_SUCCESS;
  }
  if (what == "copy") {
    unsigned from[64] = {};
    return cu.cuMemcpyHtoD_(scratch, from, sizeof from);
  }
  if (what == "copy_back") {
    unsigned to[64];
    return cu.cuMemcpyDtoH_(to, scratch, sizeof to);
  }
  if (what == "copy_async") return cu.cuMemcpyHtoDAsync_(scratch, pinned, 256, stream);
  if (what == "memset") return cu.cuMemsetD32Async_(scratch, 7, 64, stream);
  if (what == "host") return cu.cuLaunchHostFunc_(stream, step["gate"] < 0 ? do_nothing : wait_at_gate, step["gate"] < 0 ? nullptr : &gates[step["gate"]]);
  if (what == "pool") {
    CUdeviceptr memory;
    const CUresult r = cu.cuMemAllocAsync_(&memory, 4096, stream);
    return r == CUDA_SUCCESS ? cu.cuMemFreeAsync_(memory, stream) : r;
  }
  if (lg::Ranks::has(what))
    return static_cast<CUresult>(ranks.call(what, static_cast<size_t>(step["comm"]), step["to"], step["from"], static_cast<size_t>(step["count"]),
                                            reinterpret_cast<void*>(scratch), stream));
  std::fprintf(stderr, "no step %s\n", what.c_str());
  std::_Exit(4);
}

void stand(Thread& self, At at, long subject = -1) {
  self.subject = subject;
  self.at = at;
  self.moves++;
}

// False where the step has failed.
bool take(Thread& self, int number, const Step& step) {
  const std::string& what = step.what;
  self.line = step.line;
  if (what == "sleep") {
    stand(self, At::runs);
    if (order == nullptr) nap(step["ms"]);
  } else if (what == "store") {
    stand(self, At::runs);
    __atomic_store_n(words[step["word"]], static_cast<unsigned>(step["value"]), __ATOMIC_SEQ_CST);  // kernels and value waits read it
  } else if (what == "await") {
    stand(self, At::at_word, step["word"]);
    while (*words[step["word"]] < static_cast<unsigned>(step["value"])) nap_shortly();
  } else if (what == "lock") {
    Lock& lock = locks[step["lock"]];
    if (lock.holder == number) return true;
    stand(self, At::at_lock, step["lock"]);
    lock.mutex.lock();
    lock.holder = number;
  } else if (what == "unlock") {
    Lock& lock = locks[step["lock"]];
    if (lock.holder != number) return true;
    lock.holder = -1;
    lock.mutex.unlock();
  } else if (what == "pass") {
    stand(self, At::at_gate, step["gate"]);
    wait_at_gate(&gates[step["gate"]]);
  } else if (what == "open") {
    stand(self, At::runs);
    Gate& gate = gates[step["gate"]];
    std::lock_guard<std::mutex> hold(gate.mutex);
    gate.open = true;
    gate.opened.notify_all();
  } else {
    if (cu.waits != nullptr) cu.waits->set_tag(step.line);
    stand(self, At::in_call);
    const long long begin = now_ns();
    const CUresult result = call(step);
    const long took = static_cast<long>((now_ns() - begin) / 1000000);
    if (took > self.longest_ms) self.longest_ms = took;
    self.results.push_back(static_cast<int>(result));
    stand(self, At::runs);
    if (cu.waits != nullptr) cu.waits->set_tag(0);
    return result == CUDA_SUCCESS;
  }
  stand(self, At::runs);
  return true;
}

void play(Thread& self, int number) {
  self.tid = static_cast<int>(syscall(SYS_gettid));
  for (const Step& step : self.steps) {
    if (order != nullptr) {
      stand(self, At::at_turn);
      while (sem_wait(&self.turn) != 0) continue;
    }
    if (!take(self, number, step)) {
      failed = true;
      break;
    }
  }
  for (Lock* lock = locks; lock < locks + kLocks; lock++)
    if (lock->holder == number) {
      lock->holder = -1;
      lock->mutex.unlock();
    }
  stand(self, At::ended);
}

void need(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(result));
  std::_Exit(4);
}
#define NEED(name, ...) need(cu.name##_(__VA_ARGS__), #name)

void set_up(CUcontext& context) {
  open_driver();
  char name[256] = "";
  NEED(cuInit, 0);
  NEED(cuDeviceGetName, name, sizeof name, 0);
  NEED(cuDevicePrimaryCtxRetain, &context, 0);
  NEED(cuCtxSetCurrent, context);
  const void* table = nullptr;
  if (cu.cuGetExportTable_(&table, reinterpret_cast<const CUuuid*>(lgsim::kWaitsTable)) == CUDA_SUCCESS) cu.waits = static_cast<const lgsim::WaitsTable*>(table);
  for (const std::string& kind : stream_kinds) {
    CUstream stream = CU_STREAM_LEGACY;
    if (kind == "per-thread") stream = CU_STREAM_PER_THREAD;
    else if (kind != "legacy") NEED(cuStreamCreate, &stream, kind == "blocking" ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    streams.push_back(stream);
  }
  for (CUevent& event : events) NEED(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  for (size_t i = 0; i < kWords; i++) {
    void* memory = nullptr;
    if (i == kDeviceWord && cu.waits != nullptr) {
      NEED(cuMemAlloc, &device_words[i], sizeof(unsigned));
      words[i] = reinterpret_cast<volatile unsigned*>(device_words[i]);
      *words[i] = 0;
      continue;
    }
    NEED(cuMemHostAlloc, &memory, sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP);
    NEED(cuMemHostGetDevicePointer, &device_words[i], memory, 0);
    words[i] = static_cast<volatile unsigned*>(memory);
    *words[i] = 0;
  }
  if (order != nullptr) {
    void* memory = nullptr;
    NEED(cuMemHostAlloc, &memory, kLines * sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP);
    NEED(cuMemHostGetDevicePointer, &device_ends, memory, 0);
    ends = static_cast<volatile unsigned*>(memory);
    for (size_t i = 0; i < kLines; i++) ends[i] = 0;
  }
  for (CUdeviceptr& memory : allocations) NEED(cuMemAlloc, &memory, 4096);
  NEED(cuMemAlloc, &scratch, 4096);
  NEED(cuMemHostAlloc, reinterpret_cast<void**>(&pinned), 4096, 0);
  code_image = lg::image("oracle", name);
  NEED(cuModuleLoadData, &code, code_image.data());
  CUlibrary library;
  NEED(cuLibraryLoadData, &library, code_image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  for (size_t i = 0; i < kKernels; i++) NEED(cuLibraryGetKernel, &kernels[i], library, ("k" + std::to_string(i)).c_str());
  // The last kernel always: the first launch of a context is a matter of its own.
  warm.insert(kKernels - 1);
  for (long kernel : warm) {
    CUdeviceptr none = 0;
    unsigned zero = 0;
    unsigned long long no_time = 0;
    void* parameters[] = {&none, &zero, &no_time, &none, &zero};
    need(cu.cuLaunchKernel_(reinterpret_cast<CUfunction>(kernels[kernel]), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr), "warm");
  }
  NEED(cuCtxSynchronize, );
}

// ---- the truth

struct Seen {
  uint64_t moves = 0, submitted = 0;
  std::vector<lgsim::SeenOp> ops;
  std::vector<std::pair<uint64_t, uint64_t>> waits;
  std::vector<lgsim::SeenThread> in_driver;
  std::vector<std::pair<At, uint64_t>> at;  // of each thread, with its line
};

Seen look() {
  Seen seen;
  for (Thread* thread : threads) seen.at.emplace_back(thread->at, thread->line), seen.moves += thread->moves;
  const lgsim::LookAtWaits into{
      &seen,
      [](void* to, const lgsim::SeenOp* op) { static_cast<Seen*>(to)->ops.push_back(*op); },
      [](void* to, uint64_t op, uint64_t on) { static_cast<Seen*>(to)->waits.emplace_back(op, on); },
      [](void* to, const lgsim::SeenThread* thread) { static_cast<Seen*>(to)->in_driver.push_back(*thread); }};
  seen.submitted = cu.waits->look(&into);
  return seen;
}

bool has(long word, long value) { return word < 0 || *words[word] >= static_cast<unsigned>(value); }

// Of an op that runs: whether it can end by itself.
bool may_end(const lgsim::SeenOp& op) {
  const auto found = by_line.find(op.tag);
  if (found == by_line.end()) return true;
  const Step& step = *found->second;
  if (ends_by_order(step)) return ends[step.line] != 0;
  if (step.what == "launch" || step.what == "graph") return has(step["until"], step["reaches"]);
  if (step.what == "wait_value") return has(step["word"], step["value"]);
  if (step.what == "host") return step["gate"] < 0 || gates[step["gate"]].open;
  // Other ranks end it.
  return !(op.is_kernel && lg::Ranks::has(step.what));
}

const lgsim::SeenThread* in_driver(const Seen& seen, int tid) {
  for (const auto& thread : seen.in_driver)
    if (thread.thread == tid) return &thread;
  return nullptr;
}

bool stands_in_driver(const Seen& seen, const lgsim::SeenThread& thread) {
  using For = lgsim::SeenThread::For;
  if (thread.what == For::nothing) return false;
  if (thread.what == For::context_lock) {
    for (const auto& other : seen.in_driver)
      for (uint64_t lock : other.held)
        if (lock == thread.id && other.what != For::nothing) return true;
    return false;
  }
  for (const auto& op : seen.ops)
    if (op.id == thread.id) return true;
  return false;
}

// A poll is a call again and again, which waits for nothing in the driver. One of a default stream is not known to be busy: the programs have none.
bool polls_what_is_busy(const Seen& seen, const Step& step) {
  for (const auto& op : seen.ops) {
    if (step.what == "poll" && op.stream == streams[step["stream"]]) return true;
    if (step.what == "poll_event" && op.tag == recorded[step["event"]]) return true;
  }
  return false;
}

bool can_move(const Seen& seen) {
  for (const auto& op : seen.ops)
    if (op.state == lgsim::SeenOp::State::runs && may_end(op)) return true;
  for (const auto& thread : seen.in_driver)
    if (!stands_in_driver(seen, thread)) return true;
  for (size_t i = 0; i < threads.size(); i++) {
    const Thread& thread = *threads[i];
    switch (seen.at[i].first) {
      case At::runs: return true;
      case At::in_call: {
        const auto* there = in_driver(seen, thread.tid);
        const Step* const step = by_line[seen.at[i].second];
        if (there == nullptr && !polls_what_is_busy(seen, *step)) return true;
        break;
      }
      case At::at_lock:
        if (locks[thread.subject].holder < 0) return true;
        break;
      case At::at_gate:
        if (gates[thread.subject].open) return true;
        break;
      case At::at_word: {
        const Step* const step = by_line[seen.at[i].second];
        if (has((*step)["word"], (*step)["value"])) return true;
        break;
      }
      case At::at_join:
        if (seen.at[thread.subject].first == At::ended) return true;
        break;
      case At::at_turn:
      case At::ended: break;
    }
  }
  return false;
}

// Under another name first: who reads it finds it whole.
void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path + ".part") << text;
  std::rename((path + ".part").c_str(), path.c_str());
}

std::string truth_of(const Seen& seen, long long since) {
  std::ostringstream out;
  out << "stuck " << since << "\nuntil " << unix_ns() << "\n";
  for (size_t i = 0; i < threads.size(); i++)
    out << "thread " << i << " " << threads[i]->tid << " " << kAt[static_cast<int>(seen.at[i].first)] << " " << seen.at[i].second << " " << threads[i]->subject << "\n";
  for (size_t i = 0; i < kWords; i++) out << "word " << i << " " << *words[i] << "\n";
  for (size_t i = 0; i < kLocks; i++) out << "lock " << i << " " << locks[i].holder << "\n";
  for (size_t i = 0; i < streams.size(); i++) out << "stream " << i << " " << reinterpret_cast<uint64_t>(streams[i]) << "\n";
  for (const auto& op : seen.ops) out << "op " << op.id << " " << op.tag << " " << static_cast<int>(op.state) << " " << op.is_kernel << "\n";
  for (const auto& [op, on] : seen.waits) out << "waits " << op << " " << on << "\n";
  for (const auto& thread : seen.in_driver) {
    out << "driver " << thread.thread << " " << static_cast<int>(thread.what) << " " << thread.id;
    for (uint64_t lock : thread.held) out << " " << lock;
    out << "\n";
  }
  out << "end\n";
  return out.str();
}

// Looks for as long as the process is there; says once that it is stuck, and then whether it moved after all, which it must not. A rank says again and
// again that it is still.
void judge(std::string path, const std::atomic<bool>& over) {
  // As the driver's own threads are named: it is none of the program's.
  pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
  constexpr int kLooks = 6;
  uint64_t moves = 0, submitted = 0;
  int still = 0;
  long long since = unix_ns();
  bool said = false;
  while (!over) {
    const Seen seen = look();
    const bool moved = seen.moves != moves || seen.submitted != submitted || can_move(seen);
    if (moved && said && ranks.is_job()) {
      std::remove(path.c_str());
      said = false;
    } else if (moved && said) {
      write_file(path + ".moved", truth_of(seen, since));
      return;
    }
    if (moved) since = unix_ns();
    still = moved ? 0 : still + 1;
    moves = seen.moves;
    submitted = seen.submitted;
    if (still == kLooks || (said && ranks.is_job())) {
      write_file(path, truth_of(seen, since));
      said = true;
    }
    nap(40);
  }
}

// ---- orders

constexpr int kCompleted = 0, kFailed = 3, kStuck = 9, kStuckOutside = 10;

bool has_settled(uint64_t& moves, uint64_t& submitted, const Seen& seen) {
  const bool settled = seen.moves == moves && seen.submitted == submitted && !can_move(seen);
  moves = seen.moves;
  submitted = seen.submitted;
  return settled;
}

std::vector<lg::Choice> choices(const Seen& seen) {
  std::vector<lg::Choice> found;
  for (size_t i = 0; i < threads.size(); i++)
    if (seen.at[i].first == At::at_turn) found.push_back({false, i});
  for (const auto& op : seen.ops) {
    const auto step = by_line.find(op.tag);
    if (op.state == lgsim::SeenOp::State::runs && step != by_line.end() && ends_by_order(*step->second)) found.push_back({true, op.tag});
  }
  return found;
}

// Whenever nothing moves, a thread takes a step, or a kernel ends; where there is neither, the program is stuck.
void conduct(std::string path, const std::atomic<bool>& over) {
  pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
  constexpr int kLooks = 2, kLooksToBeStuck = 40;
  uint64_t moves = 0, submitted = 0;
  for (int still = 0; !over; nap_shortly()) {
    const Seen seen = look();
    still = has_settled(moves, submitted, seen) ? still + 1 : 0;
    if (still < kLooks) continue;
    const auto from = choices(seen);
    if (from.empty()) {
      if (still < kLooksToBeStuck) continue;
      write_file(path, truth_of(seen, unix_ns()));
      const bool in_a_call = std::any_of(seen.at.begin(), seen.at.end(), [](const auto& at) { return at.first == At::in_call; });
      std::_Exit(in_a_call ? kStuck : kStuckOutside);
    }
    still = 0;
    const lg::Choice& next = from[order->next(from)];
    if (next.is_kernel) {
      ends[next.number] = 1;
    } else {
      // It moves from now on, also where it has not woken up yet.
      threads[next.number]->at = At::runs;
      sem_post(&threads[next.number]->turn);
    }
  }
}

int play_all(const std::string& path);

// Its exit code, or -1.
int in_child(uint64_t seed, const std::string& path) {
  constexpr unsigned kMostSeconds = 20;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMostSeconds);
    order = new lg::Order(seed);
    std::_Exit(play_all(path));
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void play_orders(const std::string& path, uint64_t first, uint64_t count, bool all) {
  uint64_t completed = 0, stuck = 0, in_a_call = 0, neither = 0, first_stuck = 0;
  for (uint64_t seed = first; seed < first + count && (all || in_a_call == 0); seed++) {
    const int code = in_child(seed, path + ".now");
    if ((code == kStuck && in_a_call == 0) || (code == kStuckOutside && stuck == 0)) {
      first_stuck = seed;
      std::rename((path + ".now").c_str(), (path + ".stuck").c_str());
    }
    const bool ended = code == kCompleted || code == kFailed;
    completed += ended;
    in_a_call += code == kStuck;
    stuck += code == kStuck || code == kStuckOutside;
    neither += !ended && code != kStuck && code != kStuckOutside;
  }
  std::ostringstream out;
  out << "completed " << completed << "\nstuck " << stuck << "\nin_a_call " << in_a_call << "\nneither " << neither << "\n";
  if (stuck != 0) out << "first " << first_stuck << "\n";
  write_file(path, out.str() + "end\n");
}

int play_all(const std::string& path) {
  CUcontext context;
  set_up(context);
  ranks.come_together();
  threads[0]->tid = static_cast<int>(syscall(SYS_gettid));
  std::atomic<bool> over{false};
  std::thread judging;
  if (order == nullptr) write_file(path + ".begun", "");
  if (cu.waits != nullptr) judging = std::thread(order != nullptr ? conduct : judge, path, std::cref(over));

  std::vector<std::thread> others;
  for (size_t i = 1; i < threads.size(); i++)
    others.emplace_back([&, i] {
      // Not a step: it is done before the first one.
      need(cu.cuCtxSetCurrent_(context), "cuCtxSetCurrent");
      play(*threads[i], static_cast<int>(i));
    });
  Thread& self = *threads[0];
  play(self, 0);
  for (size_t i = 1; i < threads.size(); i++) {
    stand(self, At::at_join, static_cast<long>(i));
    others[i - 1].join();
  }
  stand(self, At::runs);
  over = true;
  if (judging.joinable()) judging.join();
  return failed ? kFailed : kCompleted;
}

void say_results(const std::string& path) {
  long longest = 0;
  for (size_t i = 0; i < threads.size(); i++) {
    std::printf("thread %zu:", i);
    for (int result : threads[i]->results) std::printf(" %d", result);
    std::printf("\n");
    if (threads[i]->longest_ms > longest) longest = threads[i]->longest_ms;
  }
  std::fflush(stdout);
  write_file(path, "completed\nlongest " + std::to_string(longest) + "\nend\n");
}

}  // namespace

int main(int count, char** arguments) {
  const char* const rank = std::getenv("RANK");
  const bool in_orders = rank == nullptr && (count == 5 || (count == 6 && std::string(arguments[5]) == "all"));
  const bool in_job = rank != nullptr && count >= 5;
  if (count != 3 && !in_orders && !in_job) {
    std::fprintf(stderr, "usage: player PROGRAM TRUTH [FIRST COUNT [all]] | RANK=N player PROGRAM TRUTH SHARED MEMBERS...\n");
    return 2;
  }
  if (in_job) ranks.are(std::atoi(rank), arguments[3], {arguments + 4, arguments + count});
  const std::string path = arguments[2];
  read_program(arguments[1]);
  if (in_orders) {
    play_orders(path, std::stoull(arguments[3]), std::stoull(arguments[4]), count == 6);
    return 0;
  }
  const int code = play_all(path);
  say_results(path);
  return code;
}
