/* Threads that are born, make a few calls and die, two thousand of them: what is kept for a thread has to go with it.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

enum { ROUNDS = 250, TOGETHER = 8 };

static struct job j;

static void *launch(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  CK(job_launch(&j, j.nothing, j.stream, NULL, NULL));
  return NULL;
}

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  EXPECT(statm != NULL && fscanf(statm, "%ld %ld", &pages, &resident) == 2);
  fclose(statm);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void one_round(void) {
  pthread_t threads[TOGETHER];
  for (int i = 0; i < TOGETHER; i++) EXPECT(pthread_create(&threads[i], NULL, launch, NULL) == 0);
  for (int i = 0; i < TOGETHER; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  job_begin(&j);
  for (int round = 0; round < ROUNDS / 2; round++) one_round();
  const long half = resident_kib();
  for (int round = ROUNDS / 2; round < ROUNDS; round++) one_round();
  const long grown = resident_kib() - half;
  CK(j.d.stream_synchronize(j.stream));
  printf("%d threads\n", ROUNDS * TOGETHER);
  /* A leak of a few KiB a thread would be 4 MiB and more over the second thousand. */
  printf("memory over the second half: %s\n", grown < 4096 ? "steady" : "grows");
  job_end(&j);
  return 0;
}
