/* Trap 3: a plugin's constructor, run inside dlopen with the loader's lock held, initialises CUDA, starts a thread that launches, and
 * joins it. A guard that takes the loader's lock in that thread (a look-up, a lazily resolved symbol) or starts its own thread and waits
 * for it never returns.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

int main(void) {
  void *plugin = dlopen(beside("libtrap03_constructor.so"), RTLD_NOW);
  EXPECT(plugin != NULL);
  const int *sum = dlsym(plugin, "constructor_sum");
  EXPECT(sum != NULL);
  printf("the constructor's thread added %d\n", *sum);
  return *sum == 5 ? 0 : 4;
}
