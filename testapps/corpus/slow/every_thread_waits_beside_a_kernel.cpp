// A persistent kernel runs, and the only thread waits for a semaphore that no thread posts and nothing in flight does. After four T a signal's handler does, as
// a server's for its end.
// expect: slow
// card: yes
#include <semaphore.h>
#include <sys/time.h>

#include <csignal>

#include "../corpus.hpp"

static sem_t posted;

SCENARIO(every_thread_waits_beside_a_kernel) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  sem_init(&posted, 0, 0);
  std::signal(SIGALRM, [](int) { sem_post(&posted); });
  const uint64_t us = lg::pace_ns(4) / 1000;
  const itimerval once{{0, 0}, {static_cast<time_t>(us / 1000000), static_cast<suseconds_t>(us % 1000000)}};
  setitimer(ITIMER_REAL, &once, nullptr);
  while (sem_wait(&posted) != 0) {}
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("a signal came");
  return 0;
}
