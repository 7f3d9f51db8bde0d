/* Starts a program on a machine whose kernel refuses system calls, as an old one does (ENOSYS) and a container engine's filter (EPERM).
 * It is no program for a test of its own: the tests start others by it.
 *
 * usage: refusing REFUSAL... PROGRAM [ARGUMENT...]
 *   ENOSYS=CALL,CALL,...   these are answered with "function not implemented"
 *   EPERM=CALL,CALL,...    these with "operation not permitted"
 *   linux-3.10             no call that Linux has got since
 *   container              what the default filter of Docker, containerd and podman refuses a process without capabilities
 *   container-2015         the same as long as these forbade ptrace and process_vm_readv to all, and answered EPERM for what they did not know
 *
 * exit: that of the program; 99 if the refusal cannot be arranged or the program not be started */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* The newest call of Linux 3.10, and the flags of clone() that make a namespace. */
enum { NEWEST_OF_2013 = SYS_finit_module, NAMESPACES = 0x7e020000 };

struct call {
  const char *name;
  int number;
};

#define CALL(name) {#name, SYS_##name}
/* By name: what the guard and its command use, and what may be missing. A call of a newer header is taken in where there is one. */
static const struct call KNOWN[] = {
    CALL(membarrier), CALL(process_vm_readv), CALL(ptrace), CALL(madvise), CALL(fallocate), CALL(fstatfs), CALL(statfs), CALL(getrandom),
    CALL(memfd_create), CALL(statx), CALL(copy_file_range), CALL(renameat2), CALL(prctl), CALL(prlimit64), CALL(setsid), CALL(pipe2),
    CALL(dup3), CALL(sigaltstack), CALL(rt_sigtimedwait), CALL(rt_sigpending), CALL(sched_getaffinity), CALL(sched_yield), CALL(flock),
    CALL(eventfd2), CALL(signalfd4), CALL(timerfd_create), CALL(epoll_create1), CALL(userfaultfd), CALL(perf_event_open), CALL(kcmp),
    CALL(mlock), CALL(mbind), CALL(socketpair), CALL(waitid), CALL(getdents64), CALL(readlinkat), CALL(clone), CALL(fchmod), CALL(ftruncate),
    CALL(wait4), CALL(get_robust_list), CALL(sysinfo), CALL(uname), CALL(unshare),
#ifdef SYS_close_range
    CALL(close_range),
#endif
#ifdef SYS_clone3
    CALL(clone3),
#endif
#ifdef SYS_pidfd_open
    CALL(pidfd_open), CALL(pidfd_send_signal),
#endif
#ifdef SYS_pidfd_getfd
    CALL(pidfd_getfd),
#endif
#ifdef SYS_openat2
    CALL(openat2), CALL(faccessat2),
#endif
#ifdef SYS_rseq
    CALL(rseq),
#endif
#ifdef SYS_futex_waitv
    CALL(futex_waitv),
#endif
#ifdef SYS_readlink
    CALL(readlink), CALL(access),
#endif
};

/* What the engines let no process do that has none of the capabilities for it. */
static const int FORBIDDEN[] = {
    SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_settime, SYS_delete_module, SYS_fanotify_init, SYS_finit_module, SYS_get_mempolicy, SYS_init_module,
    SYS_kcmp, SYS_kexec_load, SYS_keyctl, SYS_lookup_dcookie, SYS_mbind, SYS_migrate_pages, SYS_mount, SYS_move_pages, SYS_open_by_handle_at,
    SYS_perf_event_open, SYS_pivot_root, SYS_quotactl, SYS_reboot, SYS_request_key, SYS_set_mempolicy, SYS_setdomainname, SYS_sethostname,
    SYS_setns, SYS_settimeofday, SYS_swapoff, SYS_swapon, SYS_syslog, SYS_umount2, SYS_unshare, SYS_userfaultfd, SYS_vhangup,
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_move_mount, SYS_open_tree,
#endif
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifdef SYS_process_madvise
    SYS_process_madvise,
#endif
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm,
#endif
};

static struct sock_filter filter[512];
static unsigned short length;

static void add(struct sock_filter step) {
  if (length == sizeof filter / sizeof *filter) {
    fprintf(stderr, "refusing: too many calls\n");
    exit(99);
  }
  filter[length++] = step;
}

static struct sock_filter answer(int error) {
  return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
}

static void refuse(int number, int error) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1));
  add(answer(error));
}

static void refuse_all_above(int number, int error) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (unsigned)number, 0, 1));
  add(answer(error));
}

/* A child in namespaces of its own; the call itself is what threads are made with. */
static void refuse_namespaces(void) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
  add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)));
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1));
  add(answer(EPERM));
  add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
}

static void refuse_listed(char *list, int error) {
  for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
    size_t at = 0;
    while (at < sizeof KNOWN / sizeof *KNOWN && strcmp(KNOWN[at].name, name) != 0) at++;
    if (at == sizeof KNOWN / sizeof *KNOWN) {
      fprintf(stderr, "refusing: there is no call %s in the table\n", name);
      exit(99);
    }
    refuse(KNOWN[at].number, error);
  }
}

static void refuse_as_engines_do(int of_2015) {
#ifdef SYS_clone3
  /* Its flags cannot be looked at, and threads are made with it: every version of the engines answers that it is not there. */
  refuse(SYS_clone3, ENOSYS);
#endif
  for (size_t at = 0; at < sizeof FORBIDDEN / sizeof *FORBIDDEN; at++) refuse(FORBIDDEN[at], EPERM);
  refuse_namespaces();
  if (!of_2015) return;
  refuse(SYS_ptrace, EPERM);
  refuse(SYS_process_vm_readv, EPERM);
  refuse(SYS_process_vm_writev, EPERM);
  refuse_all_above(SYS_userfaultfd, EPERM);
}

static int is_refusal(char *word) {
  if (strncmp(word, "ENOSYS=", 7) == 0) refuse_listed(word + 7, ENOSYS);
  else if (strncmp(word, "EPERM=", 6) == 0) refuse_listed(word + 6, EPERM);
  else if (strcmp(word, "linux-3.10") == 0) refuse_all_above(NEWEST_OF_2013, ENOSYS);
  else if (strcmp(word, "container") == 0) refuse_as_engines_do(0);
  else if (strcmp(word, "container-2015") == 0) refuse_as_engines_do(1);
  else return 0;
  return 1;
}

int main(int count, char **words) {
  add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
  add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  int at = 1;
  while (at < count && is_refusal(words[at])) at++;
  if (at == count) {
    fprintf(stderr, "usage: refusing REFUSAL... PROGRAM [ARGUMENT...]\n");
    return 99;
  }
  add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const struct sock_fprog program = {length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    fprintf(stderr, "refusing: %s\n", strerror(errno));
    return 99;
  }
  execvp(words[at], words + at);
  fprintf(stderr, "refusing: %s: %s\n", words[at], strerror(errno));
  return 99;
}
