/* The small job and nothing else, for settings and surroundings that are hostile in themselves: no HOME, a TMPDIR that is not there,
 * nonsense in the guard's own settings, standard output and error closed.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

int main(void) {
  printf("sum %d\n", job_whole());
  return 0;
}
