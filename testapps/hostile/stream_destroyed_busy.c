/* A stream is destroyed while a kernel of it runs, which the driver allows; then a library is loaded, which waits for nothing. What runs
 * on no stream any more is in flight all the same.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  struct job j;
  CUdeviceptr warm_flag, flag;
  CUstream stream;
  CUlibrary library;
  job_begin(&j);
  volatile int *warm_word = job_mapped_word(&j, &warm_flag);
  *warm_word = 1;
  CK(job_launch(&j, j.spin, j.stream, &warm_flag, 0));
  CK(j.d.stream_synchronize(j.stream));
  volatile int *word = job_mapped_word(&j, &flag);
  CK(j.d.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CK(job_launch(&j, j.spin, stream, &flag, 0));
  CK(j.d.stream_destroy(stream));
  CK(j.d.library_load(&library, j.code, NULL, NULL, 0, NULL, NULL, 0));
  printf("loaded\n");
  *word = 1;
  CK(j.d.ctx_synchronize());
  printf("done\n");
  return 0;
}
