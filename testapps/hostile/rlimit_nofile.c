/* Few descriptors at the beginning, and none at all later.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <fcntl.h>
#include <sys/resource.h>

#include "driver.h"

static void limit_to(rlim_t n) {
  struct rlimit limit;
  EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = n;
  EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

int main(void) {
  struct job j;
  limit_to(16);
  job_begin(&j);
  CK(job_add(&j, j.stream, 1));
  CK(j.d.stream_synchronize(j.stream));
  limit_to(3);
  EXPECT(open("/dev/null", O_RDONLY) < 0);
  for (int i = 0; i < 1000; i++) CK(job_add(&j, j.stream, 1));
  printf("sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
