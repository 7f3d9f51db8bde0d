/* Synchronizes, and loads and unloads a library, more often than any log has room for.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

enum { SYNCHRONIZES = 20 * 1000, LOADS = 3000 };

int main(void) {
  struct job j;
  job_begin(&j);
  for (int i = 0; i < SYNCHRONIZES; i++) CK(j.d.stream_synchronize(j.stream));
  for (int i = 0; i < LOADS; i++) {
    CUlibrary library;
    CK(j.d.library_load(&library, j.code, NULL, NULL, 0, NULL, NULL, 0));
    CK(j.d.library_unload(library));
    /* A log that is written a few times a second loses none of it. */
    if (i % 100 == 0) usleep(20 * 1000);
  }
  CK(job_add(&j, j.stream, 1));
  printf("sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
