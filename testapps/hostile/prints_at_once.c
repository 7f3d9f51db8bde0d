/* Two libraries, one of which prints, and one launch, which is the first of the context and loads its kernel: nothing is in flight by then, so a guard
 * may load all kernels right before it. There is no later moment: the program ends without a call that waits.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

int main(void) {
  const struct driver d = driver_open();
  CUdevice device;
  CUcontext context;
  CUdeviceptr word;
  CUlibrary library, printing;
  CUkernel step;
  CK(d.init(0));
  CK(d.device_get(&device, 0));
  CK(d.primary_retain(&context, device));
  CK(d.set_current(context));
  CK(d.mem_alloc(&word, sizeof(int)));
  CK(d.library_load(&printing, driver_image(&d, "corpus_prints"), NULL, NULL, 0, NULL, NULL, 0));
  CK(d.library_load(&library, driver_image(&d, "corpus"), NULL, NULL, 0, NULL, NULL, 0));
  CK(d.library_kernel(&step, library, "step"));
  void *parameters[] = {&word};
  CK(d.launch((CUfunction)step, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  puts("launched");
  return 0;
}
