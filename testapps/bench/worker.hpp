// The worker's side of a measurement: a process that waits on its standard input until scripts/bench asks it for one batch.
//
// Workers of every mode are started once and then asked in turn, so that what drifts on the machine drifts for all of them alike.
//
//   ready                 the worker's first line, when all is warm
//   batch N [CALL]        asks for N launches a thread, of that call where the work has several; answers `wall_ns=.. cpu_ns=.. closing_ns=.. instructions=.. cache_misses=.. direct_ns=..`
//   settle N [CALL]       asks for N launches a thread, of which nothing is measured; answers `launches=N`
//   steps N [CALL]        asks for N launches of the first thread, counted an instruction at a time (steps.hpp);
//                         answers `instructions=.. locked=.. system_calls=..`
//   end of the input      the worker ends in an orderly way
//
// All figures are for one launch, -1 where they are not to be had. Wall-clock time is that of the launches alone: every so many of them (chunk()) the
// streams are synchronized outside of it, so that no queue fills and it is the host's time that is measured; closing_ns is the time of
// those synchronizes. After each chunk of one thread comes one past what is preloaded (direct.hpp), whose wall-clock time is direct_ns; the
// first launches of both, which bring the caches to what they will be, count for nothing. The measuring threads are pinned to a processor, and only they, and only once the driver is there: what a driver or
// a library under test starts for itself runs where it likes.
#pragma once
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "counters.hpp"
#include "steps.hpp"

namespace bench {

// Far below the depth of a launch queue (1,022 on the cards it was measured on).
constexpr int kChunk = 400;
constexpr int kWarmUp = 400;
// After a change of the way.
constexpr int kFew = 40;

inline double now_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// The value of `--NAME VALUE` among the arguments.
inline int option(int argc, char** argv, const char* name, int otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return std::atoi(argv[i + 1]);
  return otherwise;
}

// Pins the calling thread to the n-th processor after `first` among those it may use, going round.
inline void pin(int first, int n) {
  cpu_set_t allowed, one;
  if (first < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  const auto begin = std::find(processors.begin(), processors.end(), first) - processors.begin();
  CPU_ZERO(&one);
  CPU_SET(processors[(static_cast<size_t>(begin) + static_cast<size_t>(n)) % processors.size()], &one);
  sched_setaffinity(0, sizeof one, &one);
}

struct Sample {
  double wall_ns = 0, cpu_ns = 0, closing_ns = 0, direct_ns = 0;
  double instructions = 0, cache_misses = 0;
};

// Threads that start a batch at the same moment. A machine may have fewer processors than threads, so a waiting thread yields.
class Start {
 public:
  explicit Start(int threads) : threads_(threads) {}
  void wait() {
    const int turn = turn_.load();
    if (arrived_.fetch_add(1) + 1 == threads_) {
      arrived_.store(0);
      turn_.store(turn + 1);
      return;
    }
    while (turn_.load() == turn) sched_yield();
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0}, turn_{0};
};

template <class Work, class = void>
struct HasDirect : std::false_type {};
template <class Work>
struct HasDirect<Work, std::void_t<decltype(&Work::launch_directly)>> : std::true_type {};

template <class Work, class = void>
struct HasCalls : std::false_type {};
template <class Work>
struct HasCalls<Work, std::void_t<decltype(&Work::choose)>> : std::true_type {};

// Work: enter(thread) makes the thread able to launch; launch(thread, n) launches n times, and launch_directly(thread, n), which not every work
// has, past what is preloaded; settle(thread) waits until all is done; warm_up() says how many launches touch everything once, and chunk() after how
// many it has to settle. A work of several calls has choose(name), which says what its launches are from now on.
template <class Work>
class Worker {
 public:
  Worker(Work& work, int threads, int core) : work_(work), threads_(threads), core_(core), start_(threads), samples_(static_cast<size_t>(threads)) {}

  int serve() {
    std::vector<std::thread> measuring;
    for (int i = 0; i < threads_; ++i) measuring.emplace_back([this, i] { run(i); });
    ask("batch", 0);
    std::puts("ready");
    std::fflush(stdout);
    char line[64], what[16], call[32];
    int launches = 0;
    while (std::fgets(line, sizeof line, stdin) != nullptr) {
      const int words = std::sscanf(line, "%15s %d %31s", what, &launches, call);
      if (words < 2 || launches <= 0) break;
      if constexpr (HasCalls<Work>::value) {
        if (words == 3) work_.choose(call);
      }
      ask(what, launches);
      answer(what);
    }
    ask("quit", 0);
    for (std::thread& thread : measuring) thread.join();
    return 0;
  }

 private:
  void ask(const char* what, int launches) {
    std::unique_lock<std::mutex> hold(mutex_);
    what_ = what;
    launches_ = launches;
    done_ = 0;
    ++turn_;
    changed_.notify_all();
    changed_.wait(hold, [this] { return done_ == threads_; });
  }

  void answer(const std::string& what) {
    if (what == "settle") {
      std::printf("launches=%d\n", launches_);
    } else if (what == "steps") {
      const double n = launches_;
      std::printf("instructions=%.2f usual=%lu locked=%.3f system_calls=%.3f\n", static_cast<double>(steps_.instructions) / n, usual_,
                  static_cast<double>(steps_.locked) / n, static_cast<double>(steps_.system_calls) / n);
    } else {
      Sample mean;
      for (const Sample& sample : samples_) {
        mean.wall_ns += sample.wall_ns / threads_;
        mean.cpu_ns += sample.cpu_ns / threads_;
        mean.closing_ns += sample.closing_ns / threads_;
        mean.instructions += sample.instructions / threads_;
        mean.cache_misses += sample.cache_misses / threads_;
        mean.direct_ns += sample.direct_ns / threads_;
      }
      std::printf("wall_ns=%.3f cpu_ns=%.3f closing_ns=%.3f instructions=%.3f cache_misses=%.4f direct_ns=%.3f\n", mean.wall_ns, mean.cpu_ns, mean.closing_ns,
                  mean.instructions, mean.cache_misses, mean.direct_ns);
    }
    std::fflush(stdout);
  }

  void run(int index) {
    work_.enter(index);
    pin(core_, index);
    const Counters counters;
    long turn = 0;
    for (;;) {
      std::string what;
      int launches;
      {
        std::unique_lock<std::mutex> hold(mutex_);
        changed_.wait(hold, [&] { return turn_ != turn; });
        turn = turn_;
        what = what_;
        launches = launches_;
      }
      if (what == "batch") samples_[static_cast<size_t>(index)] = batch(index, launches, counters);
      if (what == "settle") through(index, launches);
      if (what == "steps" && index == 0) steps_ = step(index, launches);
      {
        std::lock_guard<std::mutex> hold(mutex_);
        ++done_;
        changed_.notify_all();
      }
      if (what == "quit") return;
    }
  }

  // What another process left in the caches meanwhile is of no interest.
  void warm(int index) { through(index, work_.warm_up()); }

  void through(int index, int launches) {
    const int chunk = work_.chunk();
    for (int left = launches; left > 0; left -= chunk) {
      work_.launch(index, std::min(left, chunk));
      work_.settle(index);
    }
  }

  Sample batch(int index, int launches, const Counters& counters) {
    Sample sum;
    warm(index);
    if (threads_ > 1) start_.wait();
    const int chunk = work_.chunk();
    for (int left = launches; left > 0; left -= chunk) {
      const int n = std::min(left, chunk);
      if constexpr (kHasDirect) {
        if (threads_ == 1) work_.launch(index, kFew);
      }
      const long long instructions = counters.instructions.now(), misses = counters.cache_misses.now();
      const double cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
      const double begin = now_ns(CLOCK_MONOTONIC);
      work_.launch(index, n);
      const double end = now_ns(CLOCK_MONOTONIC);
      sum.cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
      sum.instructions += static_cast<double>(counters.instructions.now() - instructions);
      sum.cache_misses += static_cast<double>(counters.cache_misses.now() - misses);
      sum.wall_ns += end - begin;
      const double closing = now_ns(CLOCK_MONOTONIC);
      work_.settle(index);
      sum.closing_ns += now_ns(CLOCK_MONOTONIC) - closing;
      if (instructions < 0) sum.instructions = -static_cast<double>(launches);
      if (misses < 0) sum.cache_misses = -static_cast<double>(launches);
      sum.direct_ns += direct(index, n, counters);
    }
    const double n = std::max(launches, 1);
    return {sum.wall_ns / n, sum.cpu_ns / n, sum.closing_ns / n, sum.direct_ns / n, sum.instructions / n, sum.cache_misses / n};
  }

  // Nanoseconds of n launches past what is preloaded; -n where that is not to be had.
  double direct(int index, int n, const Counters& counters) {
    if constexpr (kHasDirect) {
      if (threads_ == 1) {
        work_.launch_directly(index, kFew);
        // As before the launches that go through: the kernel's work leaves its traces in the caches.
        counters.instructions.now(), counters.cache_misses.now();
        now_ns(CLOCK_THREAD_CPUTIME_ID);
        const double begin = now_ns(CLOCK_MONOTONIC);
        work_.launch_directly(index, n);
        const double end = now_ns(CLOCK_MONOTONIC);
        work_.settle(index);
        return end - begin;
      }
    }
    return -n;
  }

  // Each launch by itself: some do what is due once in many launches, and the one in the middle is the usual one.
  Steps step(int index, int launches) {
    warm(index);
    Steps found;
    std::vector<unsigned long> each;
    for (int n = 0; n < launches; ++n) {
      const Steps one = count_steps([&] { work_.launch(index, 1); });
      each.push_back(one.instructions);
      found.instructions += one.instructions;
      found.locked += one.locked;
      found.system_calls += one.system_calls;
    }
    work_.settle(index);
    if (!each.empty()) {
      std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
      usual_ = each[each.size() / 2];
    }
    return found;
  }

  static constexpr bool kHasDirect = HasDirect<Work>::value;

  Work& work_;
  const int threads_, core_;
  Start start_;
  std::vector<Sample> samples_;
  Steps steps_;
  unsigned long usual_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  int launches_ = 0, done_ = 0;
  long turn_ = 0;
};

}  // namespace bench
