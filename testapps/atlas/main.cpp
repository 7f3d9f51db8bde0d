// The atlas: what each function of the driver does while something else is in flight.
//
//   atlas LIST                                  a line for each call ("called", "called once": with one situation a process), and for each
//                                               function that is not called, with the reason
//   atlas RUN FUNCTION VARIANT SITUATION...     makes the call in each situation, and prints a line for each
//   atlas SHARE                                 for itself: memory and an event of another process
//
// A line of RUN is "at SITUATION", before anything of it is done, and then "SITUATION WORD RESULT MICROSECONDS LOADED":
//
//   returns    the call came back while everything was still in flight, or nothing was
//   stalls     it came back, and a kernel that was launched afterwards on another stream did not start until the release
//   blocks     it came back once what was in flight had been released, and not before
//   hangs      it did not come back even then; the process ends
//   unprepared what it needs could not be made, by RESULT
//   +ends      added: the capture that was open is invalid afterwards
//
// LOADED: "loads" where a function that was not loaded before the call is loaded after it, "no" where it is not, "-" where there is none.
// ATLAS_PATIENCE_MS=700: how long a call has before it counts as blocked; half of it for the kernel afterwards.
// The process ends with 0 after a situation that leaves no context to go on with. scripts/gpu-atlas starts it for every function, and
// again for the situations that are left. Must not be used by hand on a card that others use: it fills it with kernels that spin.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "atlas.hpp"

namespace atlas {

std::vector<Call> &calls() {
  static std::vector<Call> all;
  return all;
}

std::vector<NotCalled> &not_called() {
  static std::vector<NotCalled> all;
  return all;
}

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

enum class InFlight { nothing, spin, wait_value, load };

struct Situation {
  InFlight in_flight = InFlight::nothing;
  bool on_blocking_stream = false;
  bool captures = false, capture_elsewhere = false;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
};

const std::map<std::string, Situation> &situations() {
  static const std::map<std::string, Situation> all = [] {
    std::map<std::string, Situation> s;
    s["idle"] = {};
    s["spin"].in_flight = InFlight::spin;
    s["wait"].in_flight = InFlight::wait_value;
    s["wait_blocking"].in_flight = InFlight::wait_value;
    s["wait_blocking"].on_blocking_stream = true;
    s["load"].in_flight = InFlight::load;
    s["capture_thread_local"].captures = true;
    s["capture_global"].captures = true;
    s["capture_global"].mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    s["capture_blocking"].captures = true;
    s["capture_blocking"].on_blocking_stream = true;
    s["capture_elsewhere"].captures = s["capture_elsewhere"].capture_elsewhere = true;
    s["capture_elsewhere"].mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return s;
  }();
  return all;
}

// How long a call has before it counts as blocked; more for one that takes long by itself. Several processes share the card.
Milliseconds patience_of_caller() {
  const char *set = std::getenv("ATLAS_PATIENCE_MS");
  return Milliseconds(set == nullptr ? 700 : std::atoi(set));
}
const Milliseconds kPatience = patience_of_caller(), kProbe = kPatience / 2;
constexpr Milliseconds kAfterRelease(5000);

// As /proc has it.
char thread_state(pid_t thread) {
  char line[512] = "";
  if (FILE *file = fopen(("/proc/self/task/" + std::to_string(thread) + "/stat").c_str(), "r")) {
    if (fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
    fclose(file);
  }
  const char *name_ends = std::strrchr(line, ')');
  return name_ends == nullptr || name_ends[1] == '\0' ? '?' : name_ends[2];
}

// Something done on a thread of its own, which may not come back.
class Aside {
 public:
  Aside(CUcontext context, std::function<void()> work) : state_(std::make_shared<State>()), done_(state_->done.get_future()) {
    std::thread([state = state_, context, work = std::move(work)] {
      cuCtxSetCurrent(context);
      state->thread = gettid();
      state->ready.set_value();
      state->go.get_future().wait();
      work();
      state->done.set_value();
    }).detach();
    state_->ready.get_future().wait();
  }
  void begin() { state_->go.set_value(); }
  bool done_within(Clock::duration longest) const { return done_.wait_for(longest) == std::future_status::ready; }

  // Whether the thread sleeps, as one that waits for something does; one that is slow because the machine is busy is runnable.
  bool sleeps() const {
    for (int looks = 0; looks < 5; looks++) {
      if (thread_state(state_->thread) != 'S') return false;
      std::this_thread::sleep_for(Milliseconds(1));
    }
    return true;
  }

 private:
  struct State {
    pid_t thread = 0;
    std::promise<void> ready, go, done;
  };
  std::shared_ptr<State> state_;
  std::future<void> done_;
};

[[noreturn]] void leave(int status) {
  fflush(stdout);
  std::_Exit(status);
}

void answer(const std::string &situation, const std::string &word, CUresult result, double microseconds, const char *loaded) {
  const char *error = nullptr;
  if (cuGetErrorName(result, &error) != CUDA_SUCCESS || error == nullptr) error = "unknown";
  printf("%s %s %s %.1f %s\n", situation.c_str(), word.c_str(), error, microseconds, loaded);
  fflush(stdout);
}

// What one call gave, in memory that outlives a call that does not come back.
struct Outcome {
  CUresult result = CUDA_SUCCESS;
  double microseconds = 0;
  bool ends_capture = false;
};

bool capture_ends(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool asked = cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS;
  CUgraph graph;
  const bool ended = cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS;
  return !asked || status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !ended;
}

bool is_loaded(CUfunction function) {
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
  return cuFuncIsLoaded(&state, function) == CUDA_SUCCESS && state == CU_FUNCTION_LOADING_STATE_LOADED;
}

class Run {
 public:
  Run(Bench &bench, const Call &call) : b(bench), call_(call) {}

  void in(const std::string &name, const Situation &situation) {
    printf("at %s\n", name.c_str());
    fflush(stdout);
    CUstream busy, capturing;
    const unsigned flags = situation.on_blocking_stream ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    must(cuStreamCreate(&busy, flags));
    must(cuStreamCreate(&capturing, flags));
    must(b.launch(b.warm, busy));
    must(cuCtxSynchronize());
    *b.flag = 0;
    b.busy = busy;
    b.unloaded = nullptr;
    b.captures = false;
    CUkernel late = nullptr;
    if (situation.in_flight == InFlight::load) late = library_for_later();
    try {
      call_.prepare(b);
      // Waiting for the context would invalidate a capture.
      must(b.captures ? cuStreamSynchronize(b.idle) : cuCtxSynchronize());
    } catch (const Unprepared &why) {
      answer(name, "unprepared", why.result, 0, "-");
      // What is half made may spoil what comes after.
      leave(0);
    }

    auto outcome = std::make_shared<Outcome>();
    std::unique_ptr<Aside> loader;
    if (late != nullptr) loader.reset(new Aside(b.context, [this, late] { b.launch(reinterpret_cast<CUfunction>(late), b.probe); }));
    Aside caller(b.context, [this, outcome, situation, capturing] {
      const bool here = situation.captures && !situation.capture_elsewhere;
      if (here) CK(cuStreamBeginCapture(capturing, situation.mode));
      const auto begin = Clock::now();
      outcome->result = call_.make(b);
      outcome->microseconds = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      if (here) outcome->ends_capture = capture_ends(capturing);
    });
    put_in_flight(situation, loader.get());
    if (situation.capture_elsewhere) must(cuStreamBeginCapture(capturing, situation.mode));

    caller.begin();
    const auto patience = kPatience + Milliseconds(static_cast<long>(4 * idle_microseconds_ / 1000));
    bool blocked = !caller.done_within(situation.in_flight == InFlight::nothing ? Clock::duration(kAfterRelease) : patience);
    // The simulated driver has no call that waits and does not sleep.
    while (b.simulated && blocked && !caller.sleeps()) blocked = !caller.done_within(Milliseconds(5));
    const bool stalls = !blocked && works(situation) && !probe_runs();
    *b.flag = 1;
    if (blocked && !caller.done_within(kAfterRelease)) {
      answer(name, "hangs", CUDA_SUCCESS, 0, "-");
      leave(0);
    }
    if (situation.capture_elsewhere) outcome->ends_capture = capture_ends(capturing);
    if (situation.in_flight == InFlight::nothing && !situation.captures) idle_microseconds_ = outcome->microseconds;
    const char *loaded = b.unloaded == nullptr ? "-" : is_loaded(b.unloaded) ? "loads" : "no";
    const std::string word = std::string(blocked ? "blocks" : stalls ? "stalls" : "returns") + (outcome->ends_capture ? "+ends" : "");
    answer(name, word, outcome->result, outcome->microseconds, loaded);
    if (loader != nullptr && !loader->done_within(kAfterRelease)) leave(0);
    if (probe_ != nullptr && !probe_->done_within(kAfterRelease)) leave(0);
    CUresult drained = CUDA_ERROR_UNKNOWN;
    Aside drain(b.context, [&drained] { drained = cuCtxSynchronize(); });
    drain.begin();
    if (!drain.done_within(kAfterRelease) || drained != CUDA_SUCCESS || cuStreamQuery(b.probe) != CUDA_SUCCESS) leave(0);
  }

 private:
  CUkernel library_for_later() {
    CUlibrary library;
    CUkernel kernel;
    must(cuLibraryLoadData(&library, b.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    must(cuLibraryGetKernel(&kernel, library, "cold21"));
    return kernel;
  }

  static bool works(const Situation &situation) {
    return situation.in_flight == InFlight::spin || situation.in_flight == InFlight::wait_value;
  }

  void put_in_flight(const Situation &situation, Aside *loader) {
    if (situation.in_flight == InFlight::nothing) return;
    if (situation.in_flight == InFlight::wait_value)
      must(cuStreamWaitValue32(b.busy, b.flag_on_device, 1, CU_STREAM_WAIT_VALUE_EQ));
    else
      must(lg::launch_one(b.spin, b.busy, b.flag_on_device));
    must(cuEventRecord(b.busy_event, b.busy));
    std::this_thread::sleep_for(Milliseconds(20));
    if (situation.in_flight != InFlight::load) return;
    loader->begin();
    // Not a fact about the call: without a load that waits, the situation is not there.
    if (loader->done_within(Milliseconds(100))) throw Unprepared{CUDA_ERROR_NOT_READY};
  }

  // Whether a kernel that is loaded runs on an idle stream.
  bool probe_runs() {
    auto ran = std::make_shared<std::atomic<bool>>(false);
    Bench &bench = b;
    probe_.reset(new Aside(b.context, [&bench, ran] {
      if (bench.launch(bench.warm, bench.probe) != CUDA_SUCCESS) {
        *ran = true;  // The context is gone: nothing is held back.
        return;
      }
      const auto end = Clock::now() + kProbe;
      CUresult result;
      while ((result = cuStreamQuery(bench.probe)) == CUDA_ERROR_NOT_READY && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      *ran = result != CUDA_ERROR_NOT_READY;
    }));
    probe_->begin();
    return probe_->done_within(2 * kProbe) && *ran;
  }

  Bench &b;
  const Call &call_;
  double idle_microseconds_ = 0;
  std::unique_ptr<Aside> probe_;
};

void list() {
  for (const Call &call : calls()) printf("%s\t%s\t%s\n", call.function, call.variant, call.once ? "called once" : "called");
  for (const NotCalled &left : not_called()) printf("%s\t-\tnot called: %s\n", left.function, left.reason);
}

int run(const char *function, const char *variant, char **names, int count) {
  const Call *found = nullptr;
  for (const Call &call : calls())
    if (!std::strcmp(call.function, function) && !std::strcmp(call.variant, variant)) found = &call;
  if (found == nullptr) {
    fprintf(stderr, "atlas: no call %s %s\n", function, variant);
    return 2;
  }
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  static Bench bench;
  bench.make();
  Run run(bench, *found);
  for (int i = 0; i < count; i++) {
    auto situation = situations().find(names[i]);
    if (situation == situations().end()) {
      fprintf(stderr, "atlas: no situation %s\n", names[i]);
      return 2;
    }
    try {
      run.in(situation->first, situation->second);
    } catch (const Unprepared &why) {
      answer(situation->first, "unprepared", why.result, 0, "-");
      leave(0);
    }
  }
  return 0;
}

}  // namespace
}  // namespace atlas

int main(int argc, char **argv) {
  using namespace atlas;
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "SHARE") leave(share_with_parent());
  context_calls();
  device_calls();
  loading_calls();
  memory_calls();
  mapping_calls();
  copy_calls();
  stream_calls();
  launch_calls();
  graph_calls();
  graph_node_calls();
  array_calls();
  texture_calls();
  other_calls();
  calls_left_out();
  if (word == "LIST") {
    list();
    return 0;
  }
  if (word == "RUN" && argc > 4) leave(run(argv[2], argv[3], argv + 4, argc - 4));
  fprintf(stderr, "usage: atlas LIST | atlas RUN FUNCTION VARIANT SITUATION...\n");
  return 2;
}
