/* A program that hangs in a driver call, with threads in system calls that a stop would end early, and one that spins. Each of them counts how
 * often its system call has ended with EINTR. The process ends when the file exists that it is given.
 *
 * With `undumpable` no other process of the same user may look into it.
 *
 * prints: "ready", then "interrupted: 0"
 * hangs in cuStreamSynchronize
 *
 * usage: undisturbed FILE [undumpable]
 * build: -pthread */
#include "stuck.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_int interrupted;
static atomic_ulong spun;

static void count(long result) {
  if (result < 0 && errno == EINTR) atomic_fetch_add(&interrupted, 1);
}

static void *waits_for_events(void *unused) {
  struct epoll_event event;
  const int set = epoll_create1(0);
  for (;;) count(epoll_wait(set, &event, 1, -1));
  return unused;
}

static void *receives(void *unused) {
  int ends[2];
  char byte;
  const struct timeval limit = {1000, 0};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) exit(2);
  if (setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) exit(2);
  for (;;) count(recv(ends[0], &byte, 1, 0));
  return unused;
}

static void *waits_for_a_signal(void *unused) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  const struct timespec limit = {1000, 0};
  for (;;) count(sigtimedwait(&set, NULL, &limit));
  return unused;
}

static void *sleeps(void *unused) {
  struct timespec left = {1000, 0};
  for (;;) count(nanosleep(&left, &left));
  return unused;
}

static void *spins(void *unused) {
  for (;;) atomic_fetch_add(&spun, 1);
  return unused;
}

static const char *end;

static void *watches(void *unused) {
  while (access(end, F_OK) != 0) usleep(10000);
  const unsigned long before = atomic_load(&spun);
  while (atomic_load(&spun) == before) usleep(1000);
  printf("interrupted: %d\n", atomic_load(&interrupted));
  fflush(stdout);
  _exit(0);
  return unused;
}

int main(int count_of_arguments, char **arguments) {
  void *(*const threads[])(void *) = {waits_for_events, receives, waits_for_a_signal, sleeps, spins, watches};
  if (count_of_arguments < 2) return 2;
  end = arguments[1];
  if (count_of_arguments > 2 && strcmp(arguments[2], "undumpable") == 0) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  for (size_t number = 0; number < sizeof threads / sizeof *threads; number++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, threads[number], NULL) != 0) return 2;
  }
  stuck_context();
  const CUstream stream = stuck_stream();
  puts("ready");
  fflush(stdout);
  return cuStreamSynchronize(stream) == CUDA_SUCCESS ? 0 : 1;
}
