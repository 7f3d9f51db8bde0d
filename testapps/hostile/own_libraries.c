/* Libraries of the same image: two at a time, one with an option, one with a log, used in two contexts, once more after all were unloaded; and
 * one that is never used. Each has a variable of its own in each context, which is 0 when the library is new there.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "driver.h"

static struct job j;
static CUresult (*global_of)(CUdeviceptr *, size_t *, CUlibrary, const char *);

static CUlibrary loaded(const void *image, unsigned count, CUjit_option *options, void **values) {
  CUlibrary library;
  CK(j.d.library_load(&library, image, options, values, count, NULL, NULL, 0));
  return library;
}

/* The variable of a library in the current context, before and after its kernel has set it. */
static void use(const char *what, CUlibrary library) {
  CUkernel set;
  CUdeviceptr variable;
  size_t size = 0;
  int before = -1, after = -1;
  CK(j.d.library_kernel(&set, library, "k2"));
  CK(global_of(&variable, &size, library, "s"));
  CK(j.d.copy_back(&before, variable, sizeof before));
  CK(job_launch(&j, (CUfunction)set, NULL, NULL, NULL));
  CK(j.d.ctx_synchronize());
  CK(j.d.copy_back(&after, variable, sizeof after));
  printf("%s: %d of %zu bytes, then %d\n", what, before, size, after);
}

int main(void) {
  CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
  CUresult (*destroy)(CUcontext);
  CUcontext second;
  job_begin(&j);
  void *image = driver_image(&j.d, "lazy_pair");
#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(j.d.handle, name)) != NULL)
  FUNCTION(global_of, "cuLibraryGetGlobal");
  FUNCTION(create, "cuCtxCreate_v4");
  FUNCTION(destroy, "cuCtxDestroy_v2");
  CUjit_option registers[] = {CU_JIT_MAX_REGISTERS};
  void *thirty_two[] = {(void *)32};
  char log[64] = "";
  CUjit_option logged[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void *into[] = {log, (void *)sizeof log};
  CUlibrary libraries[4] = {loaded(image, 0, NULL, NULL), loaded(image, 0, NULL, NULL), loaded(image, 1, registers, thirty_two),
                            loaded(image, 2, logged, into)};
  for (int one = 0; one < 4; one++) {
    for (int other = 0; other < one; other++) EXPECT(libraries[one] != libraries[other]);
  }
  use("the first", libraries[0]);
  use("the second", libraries[1]);
  use("with fewer registers", libraries[2]);
  use("with a log", libraries[3]);
  CK(create(&second, NULL, 0, j.device));
  use("the first in a second context", libraries[0]);
  for (int one = 0; one < 4; one++) CK(j.d.library_unload(libraries[one]));
  libraries[0] = loaded(image, 0, NULL, NULL);
  use("once more in the second context", libraries[0]);
  CK(destroy(second));
  CK(j.d.set_current(j.context));
  use("the same in the first context", libraries[0]);
  CK(j.d.library_unload(libraries[0]));
  void *unused = driver_image(&j.d, "value_fence");
  CK(j.d.library_unload(loaded(unused, 0, NULL, NULL)));
  free(unused);
  free(image);
  job_end(&j);
  return 0;
}
