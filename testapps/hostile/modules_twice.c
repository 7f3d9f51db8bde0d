/* Modules of the same image: two at a time, one with an option, one with a log, in two contexts, from two threads, and once more after all
 * were unloaded, the last time from a file. Each has a variable of its own, which is 0 when the module is new.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "modules.h"

static CUresult (*load_with)(CUmodule *, const void *, unsigned, CUjit_option *, void **);
static void *image;

static void *in_a_thread(void *context) {
  CUmodule module;
  CK(j.d.set_current(context));
  CK(load(&module, image));
  use("in a second context, from a thread", module);
  CK(unload(module));
  return NULL;
}

int main(void) {
  modules_begin();
  image = driver_image(&j.d, "lazy_pair");
  FUNCTION(load_with, "cuModuleLoadDataEx");
  CUmodule modules[4];
  CK(load(&modules[0], image));
  CK(load(&modules[1], image));
  CUjit_option registers[] = {CU_JIT_MAX_REGISTERS};
  void *thirty_two[] = {(void *)32};
  CK(load_with(&modules[2], image, 1, registers, thirty_two));
  char log[64] = "";
  CUjit_option logged[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void *into[] = {log, (void *)sizeof log};
  CK(load_with(&modules[3], image, 2, logged, into));
  for (int one = 0; one < 4; one++) {
    for (int other = 0; other < one; other++) EXPECT(modules[one] != modules[other]);
  }
  use("the first", modules[0]);
  use("the second", modules[1]);
  use("with fewer registers", modules[2]);
  use("with a log", modules[3]);
  for (int one = 0; one < 4; one++) CK(unload(modules[one]));
  CK(load(&modules[0], image));
  use("once more", modules[0]);
  CK(unload(modules[0]));
  char path[4608];
  driver_image_path(&j.d, "lazy_pair", path, sizeof path);
  CK(load_file(&modules[0], path));
  use("from a file", modules[0]);
  CK(unload(modules[0]));
  EXPECT(load_file(&modules[0], "/nowhere/nothing") != CUDA_SUCCESS);
  CUcontext second;
  CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
  CUresult (*destroy)(CUcontext);
  FUNCTION(create, "cuCtxCreate_v4");
  FUNCTION(destroy, "cuCtxDestroy_v2");
  CK(create(&second, NULL, 0, j.device));
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, in_a_thread, second) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  CK(destroy(second));
  CK(j.d.set_current(j.context));
  CUmodule none = NULL;
  EXPECT(load(&none, "nothing that the driver knows") != CUDA_SUCCESS);
  EXPECT(load(NULL, image) != CUDA_SUCCESS);
  free(image);
  job_end(&j);
  return 0;
}
