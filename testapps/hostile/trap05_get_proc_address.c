/* Trap 5: what cuGetProcAddress answers is what the driver answers, for every form, version, flag, and for names it does not have. The
 * program prints results and statuses and, in place of pointers, whether there is one, and calls a few of them.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

typedef CUresult (*get_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*get_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static const struct {
  const char *symbol;
  int version;
  cuuint64_t flags;
} asked[] = {
    {"", 0, 0},
    {"cuInit", 2000, 0},
    {"cuInit", 13000, 0},
    {"cuInit", 0, 0},
    {"cuInit", 1, 0},
    {"cuMemAlloc", 2000, 0},
    {"cuMemAlloc", 3020, 0},
    {"cuMemAlloc_v2", 13000, 0},
    {"cuMemFree", 13000, 2},
    {"cuLaunchKernel", 3020, 0},
    {"cuLaunchKernel", 4000, 0},
    {"cuLaunchKernel", 4000, 1},
    {"cuLaunchKernel", 4000, 2},
    {"cuLaunchKernel", 7000, 2},
    {"cuLaunchKernel", 7000, 3},
    {"cuLaunchKernel", 7000, 99},
    {"cuLaunchKernel_ptsz", 13000, 0},
    {"cuLaunchKernelEx", 11000, 0},
    {"cuLaunchKernelEx", 11060, 0},
    {"cuStreamSynchronize", 2000, 0},
    {"cuStreamSynchronize", 7000, 2},
    {"cuStreamWaitValue32", 8000, 0},
    {"cuStreamWaitValue32", 13000, 2},
    {"cuStreamBeginCapture", 10000, 0},
    {"cuStreamBeginCapture", 10010, 0},
    {"cuLibraryLoadData", 11070, 0},
    {"cuLibraryLoadData", 12000, 0},
    {"cuCtxCreate", 3020, 0},
    {"cuCtxCreate", 13000, 0},
    {"cuGetProcAddress", 11030, 0},
    {"cuGetProcAddress", 12000, 0},
    {"cuGetProcAddress", 13000, 0},
    {"cuGetProcAddress_v2", 13000, 0},
    {"cuModuleGetLoadingMode", 11060, 0},
    {"cuModuleGetLoadingMode", 11070, 0},
    {"cudaMalloc", 13000, 0},
    {"cuNoSuchFunction", 13000, 0},
    {"cuLgFutureCall", 13000, 0}, /* the simulated driver has it under LGSIM_UNKNOWN_SYMBOL=1, and no header does */
    {"CUINIT", 13000, 0},
    {"cuinit", 13000, 0},
    {"cuInit ", 13000, 0},
    {"cu", 13000, 0},
};

int main(void) {
  struct driver d = driver_open();
  get_v1 v1 = (get_v1)dlsym(d.handle, "cuGetProcAddress");
  get_v2 v2 = (get_v2)dlsym(d.handle, "cuGetProcAddress_v2");
  EXPECT(v1 != NULL && v2 != NULL);
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    void *function = NULL;
    int result = v1(asked[i].symbol, &function, asked[i].version, asked[i].flags);
    printf("v1 '%s' %d %llu: result %d, %s\n", asked[i].symbol, asked[i].version, (unsigned long long)asked[i].flags, result,
           function != NULL ? "a pointer" : "null");
    function = NULL;
    int status = -1;
    result = v2(asked[i].symbol, &function, asked[i].version, asked[i].flags, (CUdriverProcAddressQueryResult *)&status);
    printf("v2 '%s' %d %llu: result %d, status %d, %s\n", asked[i].symbol, asked[i].version, (unsigned long long)asked[i].flags, result,
           status, function != NULL ? "a pointer" : "null");
    function = NULL;
    result = v2(asked[i].symbol, &function, asked[i].version, asked[i].flags, NULL);
    printf("v2 '%s' %d %llu, no status: result %d, %s\n", asked[i].symbol, asked[i].version, (unsigned long long)asked[i].flags, result,
           function != NULL ? "a pointer" : "null");
  }
  /* Each form from the other, four arguments and five: the wrong one would write its status through a pointer that is not there. A driver
   * before 12.0 has only the first. */
  void *function = NULL;
  CUdriverProcAddressQueryResult status;
  CUresult (*get_version)(int *) = NULL;
  int version = 0;
  int result = v2("cuGetProcAddress", &function, 11030, 0, &status);
  printf("v1 from v2: result %d\n", result);
  if (result == CUDA_SUCCESS && function != NULL) {
    get_v1 v1_from_v2 = (get_v1)function;
    CK(v1_from_v2("cuDriverGetVersion", (void **)&get_version, 2020, 0));
    CK(get_version(&version));
    printf("version through v1 from v2: %s\n", version > 0 ? "there" : "missing");
  }
  function = NULL;
  result = v1("cuGetProcAddress", &function, 12000, 0);
  printf("v2 from v1: result %d\n", result);
  int driver_version = 0;
  CK(d.get_version(&driver_version));
  if (result == CUDA_SUCCESS && function != NULL && driver_version >= 12000) {
    get_v2 v2_from_v1 = (get_v2)function;
    version = 0;
    status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CK(v2_from_v1("cuDriverGetVersion", (void **)&get_version, 2020, 0, &status));
    CK(get_version(&version));
    printf("version through v2 from v1: %s, status %d\n", version > 0 ? "there" : "missing", (int)status);
  }
  /* By dlsym: unknown names, with what dlerror says of them. */
  static const char *const unknown[] = {"cuNoSuchFunction", "cudaMalloc", "cuLaunchKernel_v9", "cuFancyThing", "_cuInit"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    dlerror();
    void *found = dlsym(d.handle, unknown[i]);
    const char *error = dlerror();
    printf("dlsym %s: %s, %s\n", unknown[i], found != NULL ? "a pointer" : "null",
           error != NULL && strstr(error, "undefined symbol") != NULL && strstr(error, unknown[i]) != NULL ? "undefined symbol" : "no such error");
  }
  return 0;
}
