/* While a blocking stream is captured, and work was submitted to the legacy default stream before, a library is loaded and used for the
 * first time. A query of the default stream now invalidates the capture.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  struct job j;
  CUstream captured;
  CUgraph graph;
  CUlibrary library;
  CUkernel kernel;
  job_begin(&j);
  CK(j.d.stream_create(&captured, CU_STREAM_DEFAULT));
  CK(job_add(&j, NULL, 1));
  CK(j.d.begin_capture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
  CK(j.d.library_load(&library, j.code, NULL, NULL, 0, NULL, NULL, 0));
  CK(j.d.library_kernel(&kernel, library, "nothing"));
  printf("launch in the capture: %d\n", (int)job_launch(&j, (CUfunction)kernel, captured, NULL, NULL));
  printf("end of the capture: %d\n", (int)j.d.end_capture(captured, &graph));
  return 0;
}
