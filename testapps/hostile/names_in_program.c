/* A program is linked with a stub of its own for the driver: functions of its names that load the driver at the first call. Some are bound when they
 * are first called. A library that it opens refers to them as well.
 *
 * bare and guarded: prints the same lines, exit 0.
 * build: -rdynamic -Wl,-z,lazy */
#include <dlfcn.h>
#include <stdio.h>

static int calls;
static void *of_driver(const char *name) {
  calls++;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver ? dlsym(driver, name) : NULL;
}
int cuInit(unsigned flags) { return ((int (*)(unsigned))of_driver("cuInit"))(flags); }
int cuDriverGetVersion(int *version) { return ((int (*)(int *))of_driver("cuDriverGetVersion"))(version); }
int cuDeviceGetCount(int *count) { return ((int (*)(int *))of_driver("cuDeviceGetCount"))(count); }

int main(void) {
  int version = 0, count = 0;
  int (*by_name)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
  printf("cuInit %d", cuInit(0));
  printf(", count %d", cuDeviceGetCount(&count));
  printf(", by name %s %d", by_name == cuDriverGetVersion ? "its own" : "another", by_name(&version));
  printf(", %s, calls of the stub %d\n", count == 1 && version > 0 ? "answered" : "not answered", calls);
  return 0;
}
