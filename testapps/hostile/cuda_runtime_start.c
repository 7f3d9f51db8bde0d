/* Starts the CUDA runtime in the file that it is given, and says what came of it. On the simulated driver no runtime of NVIDIA's starts
 * completely: see testapps/simdriver/README.md.
 *
 * bare and guarded: prints the same line, exit 0. */
#include <dlfcn.h>
#include <stdio.h>

/* Looked up, since each version has headers of its own. */
static void *function(void *runtime, const char *name) {
  void *found = dlsym(runtime, name);
  if (found == NULL) fprintf(stderr, "the runtime has no %s\n", name);
  return found;
}

int main(int argc, char **argv) {
  void *runtime = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (runtime == NULL) {
    fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: cuda_runtime_start RUNTIME");
    return 2;
  }
  int (*release)(void *) = (int (*)(void *))function(runtime, "cudaFree");
  const char *(*name_of)(int) = (const char *(*)(int))function(runtime, "cudaGetErrorName");
  if (release == NULL || name_of == NULL) return 3;
  /* To free nothing is to start the runtime. */
  printf("the runtime starts with %s\n", name_of(release(NULL)));
  return 0;
}
