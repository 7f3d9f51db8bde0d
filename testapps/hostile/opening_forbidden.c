/* Once it has begun, the program forbids all its threads to open a file (a seccomp filter that kills), and continues.
 *
 * bare, and guarded with LAZYGUARD_LOG=off: prints the same line, exit 0. A thread that opens a file kills it by a signal. */
#include "driver.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* For every thread there is; 0 if there is one from now on. */
static int install(struct sock_filter *filter, unsigned short length) {
  const struct sock_fprog program = {length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static int forbid_opening(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_open
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 2, 0),
#endif
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  return install(filter, sizeof filter / sizeof *filter);
}

int main(void) {
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= 10; i++) CK(job_add(&j, j.stream, i));
  /* A library that opens files at its start has done so by then. */
  usleep(500 * 1000);
  if (forbid_opening() != 0) fprintf(stderr, "not forbidden here: %s\n", strerror(errno));
  for (int i = 1; i <= 10; i++) {
    CK(job_add(&j, j.stream, i));
    usleep(50 * 1000);
  }
  printf("sum %d\n", job_sum(&j));
  fflush(stdout);
  job_end(&j);
  return 0;
}
