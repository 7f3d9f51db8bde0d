/* A library that the program loads before there is a context, and one that it loads after that. A guard that loads ahead, by a profile, what the program
 * loads does so once there is a context: by then the first one is the program's own.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "driver.h"

static struct job j;

static CUlibrary loaded(const void *image) {
  CUlibrary library;
  CK(j.d.library_load(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  return library;
}

static void use(const char *what, CUlibrary library) {
  CUkernel set;
  CK(j.d.library_kernel(&set, library, "k2"));
  CK(job_launch(&j, (CUfunction)set, NULL, NULL, NULL));
  CK(j.d.ctx_synchronize());
  puts(what);
}

int main(void) {
  j.d = driver_open();
  CK(j.d.init(0));
  void *image = driver_image(&j.d, "lazy_pair");
  const CUlibrary before = loaded(image);
  CK(j.d.device_get(&j.device, 0));
  CK(j.d.primary_retain(&j.context, j.device));
  CK(j.d.set_current(j.context));
  use("loaded before there was a context", before);
  use("loaded after that", loaded(image));
  free(image);
  return 0;
}
