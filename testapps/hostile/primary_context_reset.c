/* The primary context is reset while it is retained, and used on; then it is released for the last time, and retained anew. What was loaded in
 * it before is gone each time.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "driver.h"

int main(void) {
  struct job j;
  CUresult (*load)(CUmodule *, const void *);
  CUresult (*function_of)(CUfunction *, CUmodule, const char *);
  CUresult (*reset)(CUdevice);
  job_begin(&j);
  void *image = driver_image(&j.d, "lazy_pair");
#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(j.d.handle, name)) != NULL)
  FUNCTION(load, "cuModuleLoadData");
  FUNCTION(function_of, "cuModuleGetFunction");
  FUNCTION(reset, "cuDevicePrimaryCtxReset_v2");
  for (int round = 0; round < 3; round++) {
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CK(j.d.primary_retain(&context, j.device));
    CK(j.d.set_current(context));
    // Twice in the first one: a guard that knows this run may have one left of the two.
    for (int modules = 0; modules < (round == 0 ? 2 : 1); modules++) {
      CK(load(&module, image));
      CK(function_of(&function, module, "k2"));
      CK(job_launch(&j, function, NULL, NULL, NULL));
    }
    CK(j.d.ctx_synchronize());
    CK(reset(j.device));
    // Moments at which a guard may load.
    CK(j.d.ctx_synchronize());
    usleep(20000);
    CK(j.d.ctx_synchronize());
    while (j.d.primary_release(j.device) == CUDA_SUCCESS) continue;
    printf("round %d\n", round);
  }
  free(image);
  return 0;
}
