/* Trap 11: fork before anyone has touched CUDA; parent and child each run the whole job afterwards.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  const pid_t child = job_in_child();
  printf("parent: sum %d\n", job_whole());
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  print_wait_status("child", status);
  return 0;
}
