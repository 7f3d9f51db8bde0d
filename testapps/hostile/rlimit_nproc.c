/* A user who may have only so many threads (RLIMIT_NPROC). The same small job is tried with each number, in children of their own; the
 * least number with which it completes must be the same with the guard, whose own threads count as well.
 *
 * bare and guarded: prints the same number, exit 0. The limit does not apply to root, so root's children become unused user ids;
 * other users' children get a user namespace, in which the count begins anew. */
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "driver.h"

enum { MOST = 12, FIRST_USER = 61000, PATIENCE_MS = 6000 };

/* Another user, with the right to read all files still: the job's may lie in a folder of root's. */
static void become(uid_t user) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
  data[0].permitted = data[0].effective = 1u << CAP_DAC_READ_SEARCH;
  EXPECT(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
  EXPECT(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0);
  EXPECT(syscall(SYS_capset, &header, data) == 0);
}

static int work(int n) {
  const struct rlimit limit = {(rlim_t)n, (rlim_t)n};
  if (geteuid() == 0) become((uid_t)(FIRST_USER + n));
  else EXPECT(unshare(CLONE_NEWUSER) == 0);
  EXPECT(setrlimit(RLIMIT_NPROC, &limit) == 0);
  struct job j;
  job_begin(&j);
  for (int i = 0; i < 5; i++) CK(job_add(&j, j.stream, 1));
  const int right = job_sum(&j) == 5;
  job_end(&j);
  return right ? 0 : 9;
}

int main(void) {
  pid_t children[MOST];
  int status[MOST], left = MOST;
  for (int n = 0; n < MOST; n++) {
    children[n] = fork();
    EXPECT(children[n] >= 0);
    if (children[n] == 0) {
      /* What the job says where it cannot start a thread is not what this is about. */
      EXPECT(freopen("/dev/null", "w", stderr) != NULL);
      exit(work(n + 1));
    }
    status[n] = -1;
  }
  for (int waited_ms = 0; left > 0; waited_ms += 20) {
    for (int n = 0; n < MOST; n++) {
      if (status[n] != -1) continue;
      if (waited_ms >= PATIENCE_MS) kill(children[n], SIGKILL);
      if (waitpid(children[n], &status[n], waited_ms >= PATIENCE_MS ? 0 : WNOHANG) == children[n]) left--;
      else status[n] = -1;
    }
    sleep_ms(20);
  }
  for (int n = 0; n < MOST; n++) {
    if (status[n] == 0) {
      printf("completes with %d threads\n", n + 1);
      return 0;
    }
  }
  printf("cannot be tried here\n");
  return 0;
}
