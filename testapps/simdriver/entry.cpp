#include "entry.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <unordered_set>

#include "capture.hpp"
#include "lookup.hpp"
#include "settings.hpp"

namespace lgsim {

std::atomic<unsigned char> slow_entry{kUnusual};

namespace {

std::atomic<bool> initialised_{false};
std::atomic<bool> forked_{false};

struct Plan {
  bool fails = false;
  int result = 0;
  int never_returns = -1;  // its number among those that do not, or -1
  unsigned delay_ms = 0;
  bool computes = false;  // meanwhile
  bool too_new = false;
  bool checks_capture = false;
  bool asks_no_context = false;
};

bool is_among_capture_checks(const char *symbol) {
  static const auto *const names = new std::unordered_set<std::string>{
#define CHECKS_CAPTURE(base) #base,
#include "capture-checks.inc"
#undef CHECKS_CAPTURE
  };
  return names->count(base_name(symbol)) != 0;
}

// What answers as before when the context's work is lost: it is about no context, or about which one is current.
bool asks_no_context(const std::string &base) {
  auto begins = [&](const char *with) { return base.rfind(with, 0) == 0; };
  return (begins("cuDevice") && base != "cuDevicePrimaryCtxRetain" && base != "cuDevicePrimaryCtxReset") || begins("cuCoredump") || begins("cuGet") ||
         begins("cuCtxPush") || begins("cuCtxPop") || base == "cuCtxSetCurrent" || base == "cuCtxGetCurrent" || base == "cuCtxGetDevice" ||
         base == "cuModuleGetLoadingMode";
}

const Plan *make_plan(const char *symbol) {
  const Settings &s = settings();
  auto *plan = new Plan;
  if (auto it = s.fail.find(symbol); it != s.fail.end()) {
    plan->fails = true;
    plan->result = it->second;
  }
  if (auto it = s.never_return.find(symbol); it != s.never_return.end()) plan->never_returns = it->second;
  if (auto it = s.delay_ms.find(symbol); it != s.delay_ms.end()) plan->delay_ms = it->second;
  plan->computes = s.computes.count(symbol) != 0;
  plan->too_new = introduced_in(symbol) > s.driver_version;
  plan->checks_capture = is_among_capture_checks(symbol);
  plan->asks_no_context = asks_no_context(base_name(symbol));
  return plan;
}

void log_call(int fd, const char *symbol) {
  char line[160];
  int length = snprintf(line, sizeof line, "%ld %s\n", static_cast<long>(syscall(SYS_gettid)), symbol);
  // One write a line: the file is opened for appending, so lines of several threads and processes do not mix.
  ssize_t written = write(fd, line, static_cast<size_t>(length));
  (void)written;
}

// Of one that does not return: whether it does not on this thread.
bool never_returns_here(int number) {
  if (!settings().never_return_by_thread) return true;
  char name[16] = "";
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && "never " + std::to_string(number) == name;
}

void in_forked_child() {
  if (!initialised_.load(std::memory_order_relaxed)) return;
  forked_.store(true, std::memory_order_relaxed);
  slow_entry |= kUnusual;
}

__attribute__((constructor)) void when_loaded() {
  settings();
  check_symbol_names();
  pthread_atfork(nullptr, nullptr, in_forked_child);
}

}  // namespace

void compute_for(unsigned milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

bool enter_slowly(Call &call, bool needs_init, CUresult &answer) {
  const Settings &s = settings();
  if (s.call_log_fd >= 0) log_call(s.call_log_fd, call.symbol);
  // Two threads may both make the plan; both plans say the same, and one of them is leaked.
  auto *plan = static_cast<const Plan *>(__atomic_load_n(&call.plan, __ATOMIC_ACQUIRE));
  if (!plan) {
    plan = make_plan(call.symbol);
    __atomic_store_n(&call.plan, static_cast<const void *>(plan), __ATOMIC_RELEASE);  // with the load above
  }
  if (plan->delay_ms && plan->computes) compute_for(plan->delay_ms);
  if (plan->delay_ms && !plan->computes) {
    timespec delay{plan->delay_ms / 1000, static_cast<long>(plan->delay_ms % 1000) * 1000000};
    nanosleep(&delay, nullptr);
  }
  if (plan->never_returns >= 0 && never_returns_here(plan->never_returns)) for (;;) plan->computes ? compute_for(1000) : (void)pause();
  if (plan->fails) {
    answer = static_cast<CUresult>(plan->result);
    return true;
  }
  if (plan->too_new) {
    answer = CUDA_ERROR_NOT_SUPPORTED;
    return true;
  }
  if (needs_init && (!is_initialised() || is_forked_child())) {
    answer = CUDA_ERROR_NOT_INITIALIZED;
    return true;
  }
  if (needs_init && !plan->asks_no_context && work_is_lost()) {
    answer = error_of_lost_work();
    return true;
  }
  // A thread without a context gets the error for that from the call itself.
  Context *context = nullptr;
  if (plan->checks_capture && current_context(context) == CUDA_SUCCESS) answer = unsafe_call();
  return answer != CUDA_SUCCESS;
}

void initialised() {
  initialised_.store(true, std::memory_order_relaxed);
  if (settings().plain()) slow_entry &= static_cast<unsigned char>(~kUnusual);
}
bool is_initialised() { return initialised_.load(std::memory_order_relaxed); }
bool is_forked_child() { return forked_.load(std::memory_order_relaxed); }

}  // namespace lgsim
