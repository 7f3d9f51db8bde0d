/* Leaves by _exit with launches just made, so that no handler of anyone runs.
 *
 * bare and guarded: prints the same line, exit 7. What was recorded before is readable. */
#include "driver.h"

int main(void) {
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= 100; i++) CK(job_add(&j, j.stream, 1));
  printf("sum %d\n", job_sum(&j));
  fflush(stdout);
  _exit(7);
}
