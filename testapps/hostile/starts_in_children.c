/* A process that has not used CUDA forks a child for each of two starts, one after the other, and then starts itself: what comes before a start, as an
 * import that takes long, is made once.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile, what a child has loaded the next one has ahead. */
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
  for (int start = 0; start < 2; start++) {
    fflush(stdout);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      alarm(10);
      exit(run() == 55 ? 55 : 4);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    print_wait_status("child", status);
  }
  printf("parent: sum %d\n", run());
  return 0;
}
