/* Trap 17: a library is loaded, and a cold kernel of it launched, in the middle of a stream capture. The capture ends well and the graph
 * does what was captured; a query or an event record by the guard meanwhile would have invalidated it.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
  struct job j;
  job_begin(&j);
  for (int i = 0; i < 3; i++) {
    CUgraph graph;
    CUgraphExec executable;
    CUlibrary library;
    CUkernel cold;
    CUdeviceptr sum = j.sum;
    int value = 10;
    CK(j.d.memset(j.sum, 0, 1));
    CK(j.d.ctx_synchronize());
    CK(j.d.begin_capture(j.stream, modes[i]));
    CK(job_add(&j, j.stream, 1));
    CK(j.d.library_load(&library, j.code, NULL, NULL, 0, NULL, NULL, 0));
    CK(j.d.library_kernel(&cold, library, "add"));
    CK(job_launch(&j, (CUfunction)cold, j.stream, &sum, &value));
    CK(job_add(&j, j.stream, 100));
    printf("capture mode %d ends: %d\n", (int)modes[i], (int)j.d.end_capture(j.stream, &graph));
    CK(j.d.graph_instantiate(&executable, graph, 0));
    CK(j.d.graph_launch(executable, j.stream));
    CK(j.d.graph_launch(executable, j.stream));
    printf("sum after two launches of the graph: %d\n", job_sum(&j));
  }
  return 0;
}
