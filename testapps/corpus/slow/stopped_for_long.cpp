// The process is stopped for three T in the middle of a synchronize of half a T, and goes on.
// expect: none
// card: yes
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "../corpus.hpp"

SCENARIO(stopped_for_long) {
  const pid_t self = getpid(), child = fork();
  if (child == 0) {
    lg::pass(0.7);
    kill(self, SIGSTOP);
    lg::pass(3);
    kill(self, SIGCONT);
    _exit(0);
  }
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  for (int i = 0; i < 4; ++i) {
    CK(lg::launch_one(busy, only, lg::pace_ns(0.5)));
    CK(cuStreamSynchronize(only));
  }
  waitpid(child, nullptr, 0);
  std::puts("went on");
  return 0;
}
