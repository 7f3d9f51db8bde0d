/* Trap 4: a handle is honoured. A library that is not the driver but has functions of the driver's names (a mock, a translation layer, a
 * driver that looks up its own) gets its own functions when it is asked for them by its handle.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  void *mock = dlopen(beside("libtrap04_mock.so"), RTLD_NOW | RTLD_LOCAL);
  EXPECT(mock != NULL);
  CUresult (*get_version)(int *) = (CUresult(*)(int *))dlsym(mock, "cuDriverGetVersion");
  CUresult (*synchronize)(void) = (CUresult(*)(void))dlsym(mock, "cuCtxSynchronize");
  CUresult (*from_inside)(int *) = (CUresult(*)(int *))dlsym(mock, "mock_version_by_own_lookup");
  EXPECT(get_version != NULL && synchronize != NULL && from_inside != NULL);
  int version = 0;
  printf("the mock's cuDriverGetVersion: result %d", get_version(&version));
  printf(", version %d\n", version);
  printf("the mock's cuCtxSynchronize: result %d\n", synchronize());
  version = 0;
  printf("looked up by the mock in itself: result %d", from_inside(&version));
  printf(", version %d\n", version);
  printf("a function the mock lacks: %s\n", dlsym(mock, "cuLaunchKernel") == NULL ? "null" : "not null");
  return 0;
}
