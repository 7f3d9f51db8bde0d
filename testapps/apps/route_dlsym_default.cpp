// Route: dlopen with RTLD_GLOBAL, then dlsym(RTLD_DEFAULT).
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include <dlfcn.h>

#include "../common/route_job.hpp"

int main() {
  EXPECT(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr);
  return lg::run_route_job(lg::driver_by_symbol([](const char* symbol) { return dlsym(RTLD_DEFAULT, symbol); }));
}
