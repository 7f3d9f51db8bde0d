// Route: the driver linked directly, with another interposing library in the process (LD_PRELOAD=libroute_interposer.so, before or after
// the guard) whose own cuLaunchKernel calls the next one by dlsym(RTLD_NEXT). Both must see each launch.
//
// bare:    with the interposer: completes, prints "route ok 3", "interposed launches: 2"
// guarded: completes, same output, and both launches are recorded, in either order of LD_PRELOAD
// off:     completes, no verdict
#include <dlfcn.h>

#include "../common/route_job.hpp"

int main() {
  lg::Driver driver;
#define X(field, function, ...) driver.field = &::function;
  LG_ROUTE_FUNCTIONS(X)
  LG_ROUTE_STREAM_FUNCTIONS(X)
#undef X
  const int result = lg::run_route_job(driver);
  const auto launches = static_cast<int*>(dlsym(RTLD_DEFAULT, "interposed_launches"));
  std::printf("interposed launches: %d\n", launches == nullptr ? 0 : *launches);
  return result;
}
