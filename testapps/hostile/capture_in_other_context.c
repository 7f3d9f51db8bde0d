/* While a stream of one context is captured in the global mode, a library is loaded with another context current. What anybody asks that
 * context then must not spoil the capture.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  struct job j;
  CUcontext other;
  CUgraph graph;
  CUlibrary library;
  job_begin(&j);
  CUresult (*create)(CUcontext *, unsigned, CUdevice) = (CUresult(*)(CUcontext *, unsigned, CUdevice))dlsym(j.d.handle, "cuCtxCreate_v2");
  CK(create(&other, 0, j.device));
  CK(j.d.set_current(j.context));
  CK(j.d.begin_capture(j.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(job_add(&j, j.stream, 1));
  CK(j.d.set_current(other));
  CK(j.d.library_load(&library, j.code, NULL, NULL, 0, NULL, NULL, 0));
  CK(j.d.set_current(j.context));
  printf("launch in the capture: %d\n", (int)job_add(&j, j.stream, 100));
  printf("end of the capture: %d\n", (int)j.d.end_capture(j.stream, &graph));
  return 0;
}
