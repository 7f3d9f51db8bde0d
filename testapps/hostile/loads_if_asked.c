/* loads_if_asked [anything]: loads a module and uses it, if there is an argument.
 *
 * bare and guarded: prints the same line, exit 0. With the profile of a run that was asked, too. */
#include "modules.h"

int main(int count, char **arguments) {
  (void)arguments;
  modules_begin();
  CK(job_add(&j, j.stream, 1));
  printf("sum %d\n", job_sum(&j));
  if (count > 1) {
    CUmodule module;
    CK(load(&module, driver_image(&j.d, "lazy_pair")));
    use("asked", module);
    CK(unload(module));
  }
  job_end(&j);
  return 0;
}
