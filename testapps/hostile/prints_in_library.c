/* A library that prints is loaded, and comes into the context only after the context's first launch, which is made beside a stream that waits for
 * the host. Had the guard the library's kernels in the context ahead of that launch, the driver would hold it back, and the program would hang.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "first_launch.h"

static CUlibrary loaded(const struct fresh *f, const char *image) {
  CUlibrary library;
  CK(f->d.library_load(&library, driver_image(&f->d, image), NULL, NULL, 0, NULL, NULL, 0));
  return library;
}

int main(void) {
  const struct fresh f = fresh_context();
  const CUlibrary printing = loaded(&f, "corpus_prints"), library = loaded(&f, "corpus");
  CUkernel kernel, prints;
  CUfunction step;
  CK(f.d.library_kernel(&kernel, library, "step"));
  CK(f.kernel_function(&step, kernel));
  fresh_launch_beside_a_wait(&f, step);
  CK(f.d.library_kernel(&prints, printing, "prints"));
  printf("the kernel that prints has counted to %d\n", fresh_count(&f, (CUfunction)prints));
  return 0;
}
