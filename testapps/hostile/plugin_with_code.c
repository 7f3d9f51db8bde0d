/* A plugin with device code of its own is opened and closed three times. What it is for is the argument:
 *
 *   constructor   its constructor starts a thread that loads the code, and waits for it; then it is used
 *   use           it is used
 *   idle          it is opened beside a kernel that runs, and closed without being used, before the kernel ends
 *
 * bare and guarded: prints the same line, exit 0. With a profile of an earlier run, too. */
#include "driver.h"

enum { PAUSE_US = 250000 };

int main(int argc, char **argv) {
  const char *does = argc > 1 ? argv[1] : "use";
  struct job j;
  char address[32];
  CUstream other;
  job_begin(&j);
  CK(j.d.stream_create(&other, CU_STREAM_NON_BLOCKING));
  snprintf(address, sizeof address, "%lx", (unsigned long)(uintptr_t)&j);
  EXPECT(setenv("PLUGIN_JOB", address, 1) == 0 && setenv("PLUGIN_DOES", does, 1) == 0);
  for (int i = 0; i < 3; i++) {
    CUdeviceptr word = 0;
    volatile int *mapped = NULL;
    const int idle = strcmp(does, "idle") == 0;
    if (idle) {
      mapped = job_mapped_word(&j, &word);
      CK(job_launch(&j, j.spin, j.stream, &word, NULL));
    }
    void *plugin = dlopen(beside("libplugin_with_code.so"), RTLD_NOW | RTLD_LOCAL);
    EXPECT(plugin != NULL);
    void (*use)(void) = (void (*)(void))dlsym(plugin, "use");
    EXPECT(use != NULL);
    if (!idle) use();
    // A moment, of a busy machine too, at which a guard may look around, with the kernel still running; and one at which it may load.
    usleep(PAUSE_US);
    CK(j.d.stream_synchronize(other));
    EXPECT(dlclose(plugin) == 0);
    if (idle) *mapped = 1;
    usleep(PAUSE_US);
    CK(j.d.ctx_synchronize());
  }
  CK(j.d.stream_destroy(other));
  job_end(&j);
  printf("%s three times\n", does);
  return 0;
}
