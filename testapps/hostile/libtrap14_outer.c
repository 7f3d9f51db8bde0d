/* The library of trap14_runpath that has a RUNPATH. */
// build: -Wl,--enable-new-dtags,-rpath,$ORIGIN
#include <dlfcn.h>
#include <stddef.h>

int inner_by_runpath(void) {
  void *inner = dlopen("libtrap14_inner.so", RTLD_NOW);
  if (inner == NULL) return -1;
  int (*value)(void) = (int (*)(void))dlsym(inner, "inner_value");
  return value == NULL ? -2 : value();
}
