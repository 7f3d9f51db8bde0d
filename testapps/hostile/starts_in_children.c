/* A process that has not used CUDA forks a child for each of two starts, one after the other, and then starts itself: what comes before a start, as an
 * import that takes long, is made once.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile, what a child has loaded the next one has ahead. */
#include "driver.h"

int main(void) {
  for (int start = 0; start < 2; start++) {
    const pid_t child = job_in_child();
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    print_wait_status("child", status);
  }
  printf("parent: sum %d\n", job_whole());
  return 0;
}
