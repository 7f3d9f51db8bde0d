/* What the programs share that load modules of one image: the functions of the driver for that, and the use of a module. */
#ifndef HOSTILE_MODULES_H
#define HOSTILE_MODULES_H

#include "driver.h"

static struct job j;
static CUresult (*load)(CUmodule *, const void *);
static CUresult (*load_file)(CUmodule *, const char *);
static CUresult (*unload)(CUmodule);
static CUresult (*function_of)(CUfunction *, CUmodule, const char *);
static CUresult (*global_of)(CUdeviceptr *, size_t *, CUmodule, const char *);

#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(j.d.handle, name)) != NULL)

static inline void modules_begin(void) {
  job_begin(&j);
  FUNCTION(load, "cuModuleLoadData");
  FUNCTION(load_file, "cuModuleLoad");
  FUNCTION(unload, "cuModuleUnload");
  FUNCTION(function_of, "cuModuleGetFunction");
  FUNCTION(global_of, "cuModuleGetGlobal_v2");
}

/* The variable of a module, before and after its kernel has set it. */
static inline void use(const char *what, CUmodule module) {
  CUfunction set;
  CUdeviceptr variable;
  size_t size = 0;
  int before = -1, after = -1;
  CK(function_of(&set, module, "k2"));
  CK(global_of(&variable, &size, module, "s"));
  CK(j.d.copy_back(&before, variable, sizeof before));
  CK(job_launch(&j, set, NULL, NULL, NULL));
  CK(j.d.ctx_synchronize());
  CK(j.d.copy_back(&after, variable, sizeof after));
  printf("%s: %d of %zu bytes, then %d\n", what, before, size, after);
}

/* A module of a file that holds this. */
static inline void use_from_a_file(const void *code, size_t size) {
  char path[] = "/tmp/lazyguard-module-XXXXXX";
  CUmodule module;
  const int file = mkstemp(path);
  EXPECT(file >= 0 && write(file, code, size) == (ssize_t)size && close(file) == 0);
  CK(load_file(&module, path));
  EXPECT(unlink(path) == 0);
  use("from a file", module);
  CK(unload(module));
}

#endif
