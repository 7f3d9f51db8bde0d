/* Right after its context is there, before anything is submitted, the program allows its threads what computing needs and nothing else (a
 * seccomp filter): memory, threads, locks, signals, time, open descriptors. Then it computes, with a wait for a value among it.
 *
 * `filtered kills`: what is not allowed ends the process. `filtered refuses`: it fails with EPERM.
 * bare, and guarded with LAZYGUARD_LOG=off: prints the same line, exit 0. */
#include "driver.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const int ALLOWED[] = {
    SYS_read, SYS_write, SYS_writev, SYS_readv, SYS_close, SYS_lseek, SYS_fcntl, SYS_fstat, SYS_newfstatat, SYS_ioctl, SYS_mmap, SYS_munmap, SYS_mprotect,
    SYS_madvise, SYS_mremap, SYS_brk, SYS_futex, SYS_clone, SYS_clone3, SYS_set_robust_list, SYS_rseq, SYS_exit, SYS_exit_group,
    SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sigaltstack, SYS_restart_syscall, SYS_clock_gettime, SYS_gettimeofday,
    SYS_clock_nanosleep, SYS_nanosleep, SYS_ppoll, SYS_sched_yield, SYS_sched_getaffinity, SYS_gettid, SYS_getpid, SYS_tgkill,
    SYS_getrandom, SYS_membarrier, SYS_prctl,
};
enum { COUNT = sizeof ALLOWED / sizeof *ALLOWED };

/* For every thread there is. */
static int allow_no_more(unsigned otherwise) {
  struct sock_filter filter[COUNT + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (int i = 0; i < COUNT; i++) filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i], COUNT - i, 0);
  filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
  filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {COUNT + 3, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static void *adds(void *job) {
  for (int i = 1; i <= 10; i++) CK(job_add(job, ((struct job *)job)->stream, i));
  return NULL;
}

int main(int argc, char **argv) {
  const int kills = argc > 1 && strcmp(argv[1], "kills") == 0;
  struct job j = {.d = driver_open()};
  CK(j.d.init(0));
  CK(j.d.device_get(&j.device, 0));
  CK(j.d.primary_retain(&j.context, j.device));
  CK(j.d.set_current(j.context));
  CK(j.d.stream_create(&j.stream, CU_STREAM_NON_BLOCKING));
  j.code = driver_image(&j.d, "job");
  CK(j.d.library_load(&j.library, j.code, NULL, NULL, 0, NULL, NULL, 0));
  j.add = job_kernel(&j, "add");
  /* The driver opens files when it loads. */
  CUfunction loaded;
  CK(((__typeof__(&cuKernelGetFunction))dlsym(j.d.handle, "cuKernelGetFunction"))(&loaded, (CUkernel)j.add));
  CK(j.d.mem_alloc(&j.sum, sizeof(int)));
  CUdeviceptr flag;
  volatile int *word = job_mapped_word(&j, &flag);
  if (allow_no_more(kills ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM) != 0) {
    fprintf(stderr, "not forbidden here: %s\n", strerror(errno));
  }
  CK(j.d.memset(j.sum, 0, 1));
  CK(j.d.ctx_synchronize());
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, adds, &j) == 0 && pthread_join(thread, NULL) == 0);
  CK(j.d.wait_value(j.stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(job_add(&j, j.stream, 5));
  /* The guard's threads look several times meanwhile. */
  usleep(700 * 1000);
  *word = 1;
  adds(&j);
  printf("sum %d\n", job_sum(&j));
  fflush(stdout);
  _exit(0);
}
