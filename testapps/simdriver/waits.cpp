#include "waits.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>

namespace lgsim {
namespace {

// Written by its thread alone. It stays when the thread ends, at which point it waits for nothing and holds nothing.
struct HostThread {
  int thread = 0;
  uint64_t tag = 0;
  std::atomic<SeenThread::For> what{SeenThread::For::nothing};
  std::atomic<const void *> subject{nullptr};
  std::atomic<const void *> held[SeenThread::kMostHeld] = {};
};

std::mutex &threads_mutex() {
  static std::mutex *const m = new std::mutex;
  return *m;
}
std::vector<HostThread *> &threads() {
  static auto *const t = new std::vector<HostThread *>;
  return *t;
}

HostThread &this_thread() {
  static thread_local HostThread *self = nullptr;
  if (self) return *self;
  self = new HostThread;
  self->thread = static_cast<int>(syscall(SYS_gettid));
  std::lock_guard<std::mutex> hold(threads_mutex());
  threads().push_back(self);
  return *self;
}

uint64_t number(const void *address) { return reinterpret_cast<uint64_t>(address); }

void replace(const void *from, const void *to) {
  for (std::atomic<const void *> &place : this_thread().held)
    if (place.load(std::memory_order_relaxed) == from) return place.store(to, std::memory_order_relaxed);
}

}  // namespace

HostWait::HostWait(SeenThread::For what, const void *subject) {
  HostThread &self = this_thread();
  self.subject.store(subject, std::memory_order_relaxed);
  self.what.store(what, std::memory_order_release);  // with the load in each_waiting_thread
}
HostWait::~HostWait() { this_thread().what.store(SeenThread::For::nothing, std::memory_order_release); }

void context_lock_taken(const void *lock) { replace(nullptr, lock); }
void context_lock_left(const void *lock) { replace(lock, nullptr); }
uint64_t thread_tag() { return this_thread().tag; }
void set_thread_tag(uint64_t tag) { this_thread().tag = tag; }

void each_waiting_thread(void (*see)(void *, const SeenThread *), void *user) {
  std::lock_guard<std::mutex> hold(threads_mutex());
  for (const HostThread *thread : threads()) {
    SeenThread seen{};
    seen.thread = thread->thread;
    seen.what = thread->what.load(std::memory_order_acquire);  // with the stores of HostWait
    seen.id = number(thread->subject.load(std::memory_order_relaxed));
    bool holds = false;
    for (size_t i = 0; i < SeenThread::kMostHeld; i++) {
      seen.held[i] = number(thread->held[i].load(std::memory_order_relaxed));
      holds = holds || seen.held[i];
    }
    if (holds || seen.what != SeenThread::For::nothing) see(user, &seen);
  }
}

}  // namespace lgsim
