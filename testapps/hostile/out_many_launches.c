/* Launches and synchronizes enough to fill every buffer a guard may have. The harness runs it with a full disk, a read-only folder and a
 * missing folder behind LAZYGUARD_OUT.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

enum { ROUNDS = 100, LAUNCHES = 100 };

int main(void) {
  struct job j;
  job_begin(&j);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < LAUNCHES; i++) CK(job_add(&j, j.stream, 1));
    CK(j.d.stream_synchronize(j.stream));
  }
  printf("sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
