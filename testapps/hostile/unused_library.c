/* A library of many kernels is loaded after the context has come, as cuBLASLt loads its own: preserved, the option's value being a null pointer. None
 * of its kernels is used; with an argument, one is.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "driver.h"

int main(int count, char **arguments) {
  struct job j;
  (void)arguments;
  job_begin(&j);
  void *image = driver_image(&j.d, "probes");
  CUlibraryOption preserved[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
  CUlibrary library;
  CUkernel kernel;
  CK(j.d.library_load(&library, image, NULL, NULL, 0, preserved, NULL, 1));
  CK(j.d.library_kernel(&kernel, library, "warm"));
  for (int n = 0; n < 3; n++) {
    CK(job_add(&j, NULL, 1));
    CK(j.d.ctx_synchronize());
  }
  if (count > 1) {
    CUdeviceptr sum = j.sum;
    CK(job_launch(&j, (CUfunction)kernel, NULL, &sum, NULL));
    CK(j.d.ctx_synchronize());
  }
  printf("counted to %d\n", job_sum(&j));
  CK(j.d.library_unload(library));
  free(image);
  job_end(&j);
  return 0;
}
