// Route: a second dlopen of the driver (RTLD_NOLOAD), then dlsym on what that gives.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include <dlfcn.h>

#include "../common/route_job.hpp"

int main() {
  void* const handle = dlopen("libcuda.so.1", RTLD_LAZY);
  EXPECT(handle != nullptr);
  void* const again = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  EXPECT(again == handle);
  const int result = lg::run_route_job(lg::driver_by_symbol([=](const char* symbol) { return dlsym(again, symbol); }));
  EXPECT(dlclose(again) == 0);
  return result;
}
