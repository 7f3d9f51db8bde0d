/* What the programs share whose first launch is made beside a stream that waits for the host. */
#ifndef HOSTILE_FIRST_LAUNCH_H
#define HOSTILE_FIRST_LAUNCH_H

#include "driver.h"

/* A context in which nothing was launched, two streams, a word to count in, and one that the host sets. */
struct fresh {
  struct driver d;
  CUdevice device;
  CUcontext context;
  CUstream waits, works;
  CUdeviceptr word, flag;
  volatile uint32_t *there;
  CUresult (*load)(CUmodule *, const void *);
  CUresult (*function)(CUfunction *, CUmodule, const char *);
  CUresult (*kernel_function)(CUfunction *, CUkernel);
};

static inline struct fresh fresh_context(void) {
  struct fresh f = {.d = driver_open()};
#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(f.d.handle, name)) != NULL)
  FUNCTION(f.load, "cuModuleLoadData");
  FUNCTION(f.function, "cuModuleGetFunction");
  FUNCTION(f.kernel_function, "cuKernelGetFunction");
#undef FUNCTION
  CK(f.d.init(0));
  CK(f.d.device_get(&f.device, 0));
  CK(f.d.primary_retain(&f.context, f.device));
  CK(f.d.set_current(f.context));
  CK(f.d.stream_create(&f.waits, CU_STREAM_NON_BLOCKING));
  CK(f.d.stream_create(&f.works, CU_STREAM_NON_BLOCKING));
  CK(f.d.mem_alloc(&f.word, sizeof(int)));
  CK(f.d.memset(f.word, 0, 1));
  CK(f.d.host_alloc((void **)&f.there, sizeof *f.there, CU_MEMHOSTALLOC_DEVICEMAP));
  CK(f.d.host_device_pointer(&f.flag, (void *)f.there, 0));
  *f.there = 0;
  return f;
}

/* A function of a module that is loaded now. */
static inline CUfunction fresh_function(const struct fresh *f, const char *image, const char *name) {
  CUmodule module;
  CUfunction function;
  CK(f->load(&module, driver_image(&f->d, image)));
  CK(f->function(&function, module, name));
  return function;
}

/* Counts in the word, and returns how far it has come. */
static inline int fresh_count(const struct fresh *f, CUfunction kernel) {
  int value = 0;
  void *parameters[] = {(void *)&f->word};
  CK(f->d.launch(kernel, 1, 1, 1, 1, 1, 1, 0, f->works, parameters, NULL));
  CK(f->d.stream_synchronize(f->works));
  CK(f->d.copy_back(&value, f->word, sizeof value));
  return value;
}

/* Launches beside a stream that waits until that has run. */
static inline void fresh_launch_beside_a_wait(const struct fresh *f, CUfunction kernel) {
  /* An idle moment, at which a guard may load what it wants. */
  CK(f->d.ctx_synchronize());
  CK(f->d.wait_value(f->waits, f->flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  void *parameters[] = {(void *)&f->word};
  CK(f->d.launch(kernel, 1, 1, 1, 1, 1, 1, 0, f->works, parameters, NULL));
  CK(f->d.stream_synchronize(f->works));
  *f->there = 1;
  CK(f->d.ctx_synchronize());
  puts("the first launch ran beside a wait");
  /* More such moments, later: a guard that finds a context busy looks away for a while, longer if the machine is slow. */
  for (int n = 0; n < 40; n++) {
    sleep_ms(50);
    CK(f->d.ctx_synchronize());
  }
}

#endif
