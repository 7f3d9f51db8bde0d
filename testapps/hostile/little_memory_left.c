/* Most of the device's memory is in use. A guard that loads modules and libraries ahead, by a profile of runs that have used them, takes device memory for
 * what this run may never ask for: it has to leave what is left to the program.
 *
 *   uses                loads and uses modules and libraries, which the other runs do not
 *   fills               allocates most of the device's memory, and makes a second context
 *   fills_for_a_moment  the same, and releases it again; a while later it waits for the second context, which is idle
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "modules.h"

enum { MODULES = 8 };

static void uses(void *image) {
  CUmodule modules[MODULES];
  CUlibrary libraries[MODULES];
  for (int n = 0; n < MODULES; n++) CK(load(&modules[n], image));
  for (int n = 0; n < MODULES; n++) use("a module", modules[n]);
  for (int n = 0; n < MODULES; n++) CK(j.d.library_load(&libraries[n], image, NULL, NULL, 0, NULL, NULL, 0));
  for (int n = 0; n < MODULES; n++) {
    CUkernel set;
    CK(j.d.library_kernel(&set, libraries[n], "k2"));
    CK(job_launch(&j, (CUfunction)set, NULL, NULL, NULL));
  }
  CK(j.d.ctx_synchronize());
}

static void fills(int releases) {
  CUresult (*memory_info)(size_t *, size_t *);
  CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
  CUdeviceptr memory;
  CUcontext context;
  size_t free_bytes, total;
  FUNCTION(memory_info, "cuMemGetInfo_v2");
  FUNCTION(create, "cuCtxCreate_v4");
  CK(memory_info(&free_bytes, &total));
  CK(j.d.mem_alloc(&memory, total / 100 * 91));
  printf("in a second context: %d\n", create(&context, NULL, 0, j.device));
  if (releases) CK(j.d.mem_free(memory));
  usleep(1100 * 1000);
  CK(j.d.ctx_synchronize());
}

int main(int argc, char **argv) {
  const char *does = argc > 1 ? argv[1] : "uses";
  const struct driver d = driver_open();
  j.d = d;
  CK(d.init(0));
  CK(d.device_get(&j.device, 0));
  CK(d.primary_retain(&j.context, j.device));
  CK(d.set_current(j.context));
  FUNCTION(load, "cuModuleLoadData");
  FUNCTION(function_of, "cuModuleGetFunction");
  FUNCTION(global_of, "cuModuleGetGlobal_v2");
  void *image = driver_image(&d, "lazy_pair");
  if (!strcmp(does, "uses")) uses(image);
  if (!strcmp(does, "fills")) fills(0);
  if (!strcmp(does, "fills_for_a_moment")) fills(1);
  free(image);
  return 0;
}
