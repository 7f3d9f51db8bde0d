/* A signal handler launches, a thousand times a second, while the program launches. Drivers are not made for this and neither is the
 * simulated one with its threads, so it runs with LGSIM_FREE_RUNNING=1, where a launch takes nothing that a handler could meet held; what
 * is left to break is in between.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <signal.h>
#include <sys/time.h>

#include "driver.h"

static struct job j;
static atomic_int from_handler, failures;

static void on_alarm(int signal_number) {
  (void)signal_number;
  if (job_launch(&j, j.nothing, j.stream, NULL, NULL) != CUDA_SUCCESS) atomic_fetch_add(&failures, 1);
  atomic_fetch_add(&from_handler, 1);
}

int main(void) {
  struct sigaction action;
  struct itimerval timer = {{0, 1000}, {0, 1000}};
  const struct itimerval off = {{0, 0}, {0, 0}};
  struct timespec begin, now;
  long elapsed_ms;
  job_begin(&j);
  CK(job_launch(&j, j.nothing, j.stream, NULL, NULL));
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
  EXPECT(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    for (int i = 0; i < 100; i++) CK(job_launch(&j, j.nothing, j.stream, NULL, NULL));
    clock_gettime(CLOCK_MONOTONIC, &now);
    elapsed_ms = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
    /* On a busy machine the timer's signals come when the program does. */
  } while (elapsed_ms < 500 || (atomic_load(&from_handler) <= 50 && elapsed_ms < 20000));
  EXPECT(setitimer(ITIMER_REAL, &off, NULL) == 0);
  CK(j.d.stream_synchronize(j.stream));
  printf("launches from the handler: %s\n", atomic_load(&from_handler) > 50 ? "many" : "too few");
  printf("failures: %d\n", atomic_load(&failures));
  return 0;
}
