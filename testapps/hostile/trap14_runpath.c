/* Trap 14: a library's RUNPATH counts for the dlopen that the library itself makes. An override of dlopen makes the call from another
 * place and the RUNPATH is lost.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  void *outer = dlopen(beside("libtrap14_outer.so"), RTLD_NOW);
  EXPECT(outer != NULL);
  printf("the program finds the inner library: %s\n", dlopen("libtrap14_inner.so", RTLD_NOW) != NULL ? "yes" : "no");
  int (*by_runpath)(void) = (int (*)(void))dlsym(outer, "inner_by_runpath");
  EXPECT(by_runpath != NULL);
  printf("the outer library finds it by its RUNPATH: %d\n", by_runpath());
  return 0;
}
