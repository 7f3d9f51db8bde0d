// The program forks while a kernel of one and a half T runs; the child sleeps two T and leaves.
// expect: slow
// card: yes
#include <sys/wait.h>
#include <unistd.h>

#include "../corpus.hpp"

SCENARIO(forks_in_the_middle) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::pace_ns(1.5)));
  const pid_t child = fork();
  if (child == 0) {
    lg::pass(2);
    _exit(3);
  }
  CK(cuStreamSynchronize(only));
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  std::puts("both are done");
  return 0;
}
