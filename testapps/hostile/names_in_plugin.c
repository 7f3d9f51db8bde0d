/* A plugin has variables and functions with the names of the driver's and NCCL's, and uses the driver as well. It is opened in each way.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  const int ways[] = {RTLD_NOW | RTLD_LOCAL, RTLD_LAZY | RTLD_LOCAL, RTLD_NOW | RTLD_DEEPBIND, RTLD_NOW | RTLD_GLOBAL};
  for (int i = 0; i < 4; i++) {
    void *plugin = dlopen(beside("libnames_plugin.so"), ways[i]);
    EXPECT(plugin != NULL);
    int (*use)(void) = (int (*)(void))dlsym(plugin, "use");
    printf("way %d: %d\n", i, use());
    fflush(stdout);
    if (i < 3) dlclose(plugin);
  }
  struct job job;
  job_begin(&job);
  for (int i = 1; i <= 10; i++) CK(job_add(&job, job.stream, i));
  printf("sum %d\n", job_sum(&job));
  job_end(&job);
  return 0;
}
