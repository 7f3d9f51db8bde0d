/* Standard error leads to a socket or a pipe that nobody reads any more, when the guard has lines to write there.
 *
 *   standard_error_is_gone socket|pipe|handler
 *
 * bare and guarded: prints the same line, exit 0. */
#include <signal.h>
#include <sys/socket.h>

#include "driver.h"

static volatile sig_atomic_t signals;

static void count(int signal) {
  (void)signal;
  signals++;
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  int ends[2];
  EXPECT((strcmp(argv[1], "socket") == 0 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
  EXPECT(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
  close(ends[0]);
  signal(SIGPIPE, strcmp(argv[1], "handler") == 0 ? count : SIG_DFL);
  printf("sum %d\n", job_whole());
  sigset_t pending, blocked;
  sigpending(&pending);
  sigprocmask(SIG_BLOCK, NULL, &blocked);
  printf("signals: %d, pending %d, blocked %d\n", (int)signals, sigismember(&pending, SIGPIPE), sigismember(&blocked, SIGPIPE));
  return 0;
}
