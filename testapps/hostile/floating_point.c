/* Floating point as the program has set it: rounding, enabled traps, and flags that were raised.
 *
 *   floating_point traps|rounds|flags
 *
 * bare and guarded: prints the same line, exit 0. */
// build: -lm
#include <fenv.h>

#include "driver.h"

static void *works(void *job) {
  const struct job *j = job;
  CK(j->d.set_current(j->context));
  for (int i = 1; i <= 100; i++) CK(job_add(j, j->stream, 1));
  return NULL;
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  struct driver d = driver_open();
  const int traps = strcmp(argv[1], "traps") == 0 ? FE_ALL_EXCEPT : strcmp(argv[1], "rounds") == 0 ? FE_UNDERFLOW | FE_OVERFLOW : 0;
  if (strcmp(argv[1], "rounds") == 0) fesetround(FE_DOWNWARD);
  feclearexcept(FE_ALL_EXCEPT);
  if (traps == 0) feraiseexcept(FE_DIVBYZERO);
  feenableexcept(traps);
  struct job j;
  job_begin_with(&j, d);
  for (int i = 1; i <= 500; i++) {
    CK(job_add(&j, j.stream, 1));
    if (i % 50 == 0) CK(d.stream_synchronize(j.stream));
  }
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, works, &j) == 0);
  pthread_join(thread, NULL);
  /* The guard's threads look meanwhile. */
  sleep_ms(400);
  printf("sum %d: rounding %s, traps %s, flags %x\n", job_sum(&j), fegetround() == (traps == (FE_UNDERFLOW | FE_OVERFLOW) ? FE_DOWNWARD : FE_TONEAREST) ? "kept" : "lost",
         fegetexcept() == traps ? "kept" : "lost", fetestexcept(FE_ALL_EXCEPT));
  job_end(&j);
  return 0;
}
