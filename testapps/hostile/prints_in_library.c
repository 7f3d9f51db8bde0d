/* A library that prints is loaded, and comes into the context only after the context's first launch, which is made beside a stream that waits for
 * the host. Had the guard the library's kernels in the context ahead of that launch, the driver would hold it back, and the program would hang.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  CUresult (*kernel_function)(CUfunction *, CUkernel);
  const struct driver d = driver_open();
  CUdevice device;
  CUcontext context;
  CUstream waits, works;
  CUdeviceptr word, flag;
  CUlibrary library, printing;
  CUkernel kernel, prints;
  CUfunction step;
  volatile uint32_t *there;
#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(d.handle, name)) != NULL)
  FUNCTION(kernel_function, "cuKernelGetFunction");
  CK(d.init(0));
  CK(d.device_get(&device, 0));
  CK(d.primary_retain(&context, device));
  CK(d.set_current(context));
  CK(d.stream_create(&waits, CU_STREAM_NON_BLOCKING));
  CK(d.stream_create(&works, CU_STREAM_NON_BLOCKING));
  CK(d.mem_alloc(&word, sizeof(int)));
  CK(d.memset(word, 0, 1));
  CK(d.host_alloc((void **)&there, sizeof *there, CU_MEMHOSTALLOC_DEVICEMAP));
  CK(d.host_device_pointer(&flag, (void *)there, 0));
  *there = 0;
  CK(d.library_load(&printing, driver_image(&d, "corpus_prints"), NULL, NULL, 0, NULL, NULL, 0));
  CK(d.library_load(&library, driver_image(&d, "corpus"), NULL, NULL, 0, NULL, NULL, 0));
  CK(d.library_kernel(&kernel, library, "step"));
  CK(kernel_function(&step, kernel));
  CK(d.ctx_synchronize());
  CK(d.wait_value(waits, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  void *parameters[] = {&word};
  CK(d.launch(step, 1, 1, 1, 1, 1, 1, 0, works, parameters, NULL));
  CK(d.stream_synchronize(works));
  *there = 1;
  CK(d.ctx_synchronize());
  puts("the first launch ran beside a wait");
  CK(d.library_kernel(&prints, printing, "prints"));
  CK(d.launch((CUfunction)prints, 1, 1, 1, 1, 1, 1, 0, works, parameters, NULL));
  CK(d.ctx_synchronize());
  puts("done");
  return 0;
}
