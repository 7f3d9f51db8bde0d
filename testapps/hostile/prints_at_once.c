/* Two libraries, one of which prints, and one launch, which is the first of the context: nothing is in flight by then, so a guard may load all kernels
 * right before it. There is no later moment: the program ends without a call that waits.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "first_launch.h"

int main(void) {
  const struct fresh f = fresh_context();
  CUlibrary library, printing;
  CUkernel step;
  CK(f.d.library_load(&printing, driver_image(&f.d, "corpus_prints"), NULL, NULL, 0, NULL, NULL, 0));
  CK(f.d.library_load(&library, driver_image(&f.d, "corpus"), NULL, NULL, 0, NULL, NULL, 0));
  CK(f.d.library_kernel(&step, library, "step"));
  void *parameters[] = {(void *)&f.word};
  CK(f.d.launch((CUfunction)step, 1, 1, 1, 1, 1, 1, 0, f.works, parameters, NULL));
  puts("launched");
  return 0;
}
