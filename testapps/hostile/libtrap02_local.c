/* The library of trap02_rtld_default. */
#include <dlfcn.h>
#include <stddef.h>

int only_in_the_local_library = 42;

int finds_itself(void) {
  const int *own = dlsym(RTLD_DEFAULT, "only_in_the_local_library");
  return own == &only_in_the_local_library;
}
