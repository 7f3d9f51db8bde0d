/* The library of trap04_own_handle. Must not be taken for a driver. */
#include <dlfcn.h>
#include <stddef.h>

int cuDriverGetVersion(int *version) {
  *version = 4242;
  return 0;
}

int cuCtxSynchronize(void) { return 77; }

int mock_version_by_own_lookup(int *version) {
  Dl_info info;
  if (dladdr((void *)mock_version_by_own_lookup, &info) == 0) return -1;
  void *self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (self == NULL) return -2;
  int (*own)(int *) = (int (*)(int *))dlsym(self, "cuDriverGetVersion");
  dlclose(self);
  return own == NULL ? -3 : own(version);
}
