/* Trap 7: names that only begin like the driver's belong to the library that exports them.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  static const char *const names[] = {"cudnnCreate", "cuFancyThing", "cuLaunchKernelFancy", "cublasCreate_v2", "cuInitialize", "cuMemAlloc_v3", "cu", "curl_easy_init"};
  void *library = dlopen(beside("libtrap07_similar.so"), RTLD_NOW | RTLD_GLOBAL);
  EXPECT(library != NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int (*by_handle)(void) = (int (*)(void))dlsym(library, names[i]);
    int (*by_default)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, names[i]);
    printf("%s: %d, %s\n", names[i], by_handle != NULL ? by_handle() : -1, by_handle == by_default ? "one and the same" : "two");
  }
  return 0;
}
