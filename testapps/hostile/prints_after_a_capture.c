/* A launch is captured before the context's first launch, which is made beside a stream that waits for the host. A library that prints is loaded
 * by then, and comes into the context only after that. What is captured is no launch yet: had the guard the library's kernels in the context at the
 * capture, the driver would hold the first launch back, and the program would hang.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "first_launch.h"

static CUkernel kernel_of(const struct fresh *f, const char *image, const char *name) {
  CUlibrary library;
  CUkernel kernel;
  CK(f->d.library_load(&library, driver_image(&f->d, image), NULL, NULL, 0, NULL, NULL, 0));
  CK(f->d.library_kernel(&kernel, library, name));
  return kernel;
}

static void capture(const struct fresh *f, CUfunction kernel) {
  CUgraph graph;
  void *parameters[] = {(void *)&f->word};
  /* An idle moment, at which a guard may load what it wants. */
  CK(f->d.ctx_synchronize());
  CK(f->d.begin_capture(f->works, CU_STREAM_CAPTURE_MODE_RELAXED));
  CK(f->d.launch(kernel, 1, 1, 1, 1, 1, 1, 0, f->works, parameters, NULL));
  CK(f->d.end_capture(f->works, &graph));
}

int main(void) {
  const struct fresh f = fresh_context();
  const CUkernel prints = kernel_of(&f, "corpus_prints", "prints"), step = kernel_of(&f, "corpus", "step");
  capture(&f, (CUfunction)step);
  fresh_launch_beside_a_wait(&f, (CUfunction)step);
  printf("the kernel that prints has counted to %d\n", fresh_count(&f, (CUfunction)prints));
  return 0;
}
