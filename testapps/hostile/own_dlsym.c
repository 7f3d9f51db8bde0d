/* The program has a dlsym of its own, found before anyone else's, which counts and calls the next one.
 *
 * bare and guarded: prints the same lines, exit 0. */
// build: -rdynamic
#include "driver.h"

static int looked_up;

void *dlsym(void *restrict handle, const char *restrict name) {
  static void *(*next)(void *, const char *);
  if (next == NULL) {
    /* Its version moved when libdl became part of libc. */
    next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (next == NULL) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (next == NULL) _exit(5);
  }
  looked_up += strcmp(name, "cuLaunchKernel") == 0 || strcmp(name, "cuCtxSynchronize") == 0;
  return next(handle, name);
}

int main(void) {
  struct job j;
  job_begin(&j);
  CK(job_add(&j, j.stream, 3));
  printf("sum %d\n", job_sum(&j));
  printf("looked up through the program's own dlsym: %d\n", looked_up);
  job_end(&j);
  return 0;
}
