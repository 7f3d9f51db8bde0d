/* A plugin with functions of NCCL's and the driver's names is opened, used and closed: it goes each time, and begins anew.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  for (int i = 0; i < 3; i++) {
    void *plugin = dlopen(beside("libnames_unloaded.so"), RTLD_NOW);
    EXPECT(plugin != NULL);
    printf("%d\n", ((int (*)(void))dlsym(plugin, "use"))());
    fflush(stdout);
    dlclose(plugin);
  }
  return 0;
}
