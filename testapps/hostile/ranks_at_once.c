/* Processes that initialise the driver at the very same moment, as the ranks of a job do, with one environment for all of them.
 *
 * bare and guarded: prints the same line, exit 0. Each process has a run folder of its own, whatever LAZYGUARD_OUT says. */
#include <sys/mman.h>

#include "driver.h"

enum { RANKS = 2 };

/* A child's job, once all are there. */
static int run(atomic_int *ready) {
  struct job j;
  const struct driver d = driver_open();
  atomic_fetch_add(ready, 1);
  while (atomic_load(ready) < RANKS) continue;
  job_begin_with(&j, d);
  for (int i = 1; i <= 10; i++) CK(job_add(&j, j.stream, i));
  return job_sum(&j);
}

int main(void) {
  int well = 0;
  atomic_int *const ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(ready != MAP_FAILED);
  for (int i = 0; i < RANKS; i++) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      alarm(10);
      exit(run(ready));
    }
  }
  for (int i = 0; i < RANKS; i++) {
    int status;
    EXPECT(wait(&status) > 0);
    well += WIFEXITED(status) && WEXITSTATUS(status) == 55;
  }
  printf("%d ranks, %d well\n", RANKS, well);
  return 0;
}
