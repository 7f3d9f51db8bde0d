/* The plugin of names_in_plugin: it uses the driver through pointers that have the names of its functions, as loaders of the driver do, and has
 * functions, a thread-local variable and an indirect function of other such names.
 * build: -fcommon */
#include <dlfcn.h>
#include <stdio.h>

int (*cuInit)(unsigned);
int (*cuDeviceGetCount)(int *) = 0;
int (*cuDriverGetVersion)(int *);
__thread int cuCtxSynchronize = 5;
int cuMemFree_v2[64];
int cuStreamQuery(void *stream) { return stream == NULL ? 41 : 42; }
int ncclGroupEnd(void) { return 77; }
static int chosen(void) { return 31; }
static int (*choose(void))(void) { return chosen; }
int cuEventQuery(void) __attribute__((ifunc("choose")));
static int (*const table[])(void *) = {cuStreamQuery};

/* A constructor stores, before anybody can look the plugin over. */
__attribute__((constructor)) static void begin(void) { cuMemFree_v2[3] = 9; }

int use(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == NULL) return -1;
  cuInit = (int (*)(unsigned))dlsym(driver, "cuInit");
  cuDeviceGetCount = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
  cuDriverGetVersion = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
  int devices = 0, version = 0;
  int failed = cuInit(0) | cuDeviceGetCount(&devices) | cuDriverGetVersion(&version);
  int (*by_name)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, "cuStreamQuery");
  printf("results %d, devices %d, %s; own: %d %d %d %d %d; by name: %d\n", failed, devices, version > 0 ? "a version" : "none", cuCtxSynchronize++,
         cuMemFree_v2[3], cuStreamQuery(NULL), cuEventQuery(), ncclGroupEnd(), by_name ? by_name(NULL) : -1);
  return table[0](NULL);
}
