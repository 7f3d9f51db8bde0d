/* Trap 2: dlsym(RTLD_DEFAULT) searches the global scope and then the caller's own. A library opened RTLD_LOCAL finds its own symbol that
 * way, and the program does not find the library's.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  void *library = dlopen(beside("libtrap02_local.so"), RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != NULL);
  int (*finds_itself)(void) = (int (*)(void))dlsym(library, "finds_itself");
  EXPECT(finds_itself != NULL);
  printf("the library finds its own symbol by RTLD_DEFAULT: %d\n", finds_itself());
  printf("the program finds it: %d\n", dlsym(RTLD_DEFAULT, "only_in_the_local_library") != NULL);
  dlerror();
  void *missing = dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere");
  const char *error = dlerror();
  printf("a missing symbol: %s, %s\n", missing == NULL ? "null" : "not null", error != NULL && strstr(error, "no_such_symbol_anywhere") ? "dlerror names it" : "dlerror does not name it");
  printf("a second dlerror: %s\n", dlerror() == NULL ? "null" : "not null");
  return 0;
}
