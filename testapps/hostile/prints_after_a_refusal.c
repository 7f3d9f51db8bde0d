/* As prints_later, after a launch that the driver refuses: the context's first launch is still to come.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "driver.h"

static int counted(const struct driver *d, CUfunction kernel, CUdeviceptr word, CUstream stream) {
  int value = 0;
  void *parameters[] = {&word};
  CK(d->launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
  CK(d->stream_synchronize(stream));
  CK(d->copy_back(&value, word, sizeof value));
  return value;
}

int main(void) {
  CUresult (*load)(CUmodule *, const void *);
  CUresult (*function)(CUfunction *, CUmodule, const char *);
  const struct driver d = driver_open();
  CUdevice device;
  CUcontext context;
  CUstream waits, works;
  CUdeviceptr word, flag;
  CUmodule module;
  CUfunction step, prints;
  volatile uint32_t *there;
#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(d.handle, name)) != NULL)
  FUNCTION(load, "cuModuleLoadData");
  FUNCTION(function, "cuModuleGetFunction");
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
  CK(load(&module, driver_image(&d, "corpus")));
  CK(function(&step, module, "step"));
  /* A launch that the driver refuses. */
  void *none[] = {&word};
  EXPECT(d.launch(step, 1, 1, 1, 4096, 1, 1, 0, works, none, NULL) != CUDA_SUCCESS);
  /* An idle moment, at which a guard may load what it wants. */
  CK(d.ctx_synchronize());
  CK(d.wait_value(waits, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  void *parameters[] = {&word};
  CK(d.launch(step, 1, 1, 1, 1, 1, 1, 0, works, parameters, NULL));
  CK(d.stream_synchronize(works));
  *there = 1;
  CK(d.ctx_synchronize());
  /* Another such moment, later: who finds a context busy looks away for a while. */
  nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
  CK(d.ctx_synchronize());
  puts("the first launch ran beside a wait");
  CK(load(&module, driver_image(&d, "corpus_prints")));
  CK(function(&prints, module, "prints"));
  printf("the kernel that prints has counted to %d\n", counted(&d, prints, word, works));
  return 0;
}
