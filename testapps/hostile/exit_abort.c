/* Ends by abort() with launches just made.
 *
 * bare and guarded: prints the same line, ends by signal 6. What was recorded before is readable. */
#include <sys/resource.h>

#include "driver.h"

int main(void) {
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= 100; i++) CK(job_add(&j, j.stream, 1));
  printf("sum %d\n", job_sum(&j));
  fflush(stdout);
  abort();
}
