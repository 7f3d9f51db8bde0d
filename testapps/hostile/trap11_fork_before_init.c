/* Trap 11: fork before anyone has touched CUDA; parent and child each run the whole job afterwards.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

static int run(void) {
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= 10; i++) CK(job_add(&j, j.stream, i));
  const int sum = job_sum(&j);
  job_end(&j);
  return sum;
}

int main(void) {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    alarm(10);
    exit(run() == 55 ? 55 : 4);
  }
  printf("parent: sum %d\n", run());
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  print_wait_status("child", status);
  return 0;
}
