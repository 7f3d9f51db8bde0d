/* The plugin of plugin_reload. It leaves its handle of the driver open, as plugins do: a driver is not made to be unloaded. */
#include "driver.h"

int run(int value) {
  struct job j;
  job_begin(&j);
  CK(job_add(&j, j.stream, value));
  const int sum = job_sum(&j);
  job_end(&j);
  return sum;
}
