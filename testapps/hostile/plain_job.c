/* The small job and nothing else, for settings and surroundings that are hostile in themselves: no HOME, a TMPDIR that is not there,
 * nonsense in the guard's own settings, standard output and error closed.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

int main(void) {
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= 10; i++) CK(job_add(&j, j.stream, i));
  printf("sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
