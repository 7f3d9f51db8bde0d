/* exit() while a kernel spins and no thread waits for it. Nothing may wait for it at exit either.
 *
 * bare and guarded: prints the same line, exit 8. */
#include "driver.h"

static void at_exit(void) { puts("own exit handler"); }

int main(void) {
  struct job j;
  CUdeviceptr flag;
  atexit(at_exit);
  job_begin(&j);
  job_mapped_word(&j, &flag);
  CK(job_launch(&j, j.spin, j.stream, &flag, NULL));
  exit(8);
}
