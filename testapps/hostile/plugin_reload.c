/* A plugin that uses CUDA is opened, used and closed, thirty times. The driver stays, the plugin's code and look-ups do not.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

enum { TIMES = 30 };

int main(void) {
  int total = 0;
  for (int i = 0; i < TIMES; i++) {
    void *plugin = dlopen(beside("libplugin_reload.so"), RTLD_NOW | RTLD_LOCAL);
    EXPECT(plugin != NULL);
    int (*run)(int) = (int (*)(int))dlsym(plugin, "run");
    EXPECT(run != NULL);
    total += run(i);
    EXPECT(dlclose(plugin) == 0);
  }
  printf("total %d\n", total);
  return 0;
}
