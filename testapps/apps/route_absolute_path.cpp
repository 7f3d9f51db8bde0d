// Route: dlopen of the driver by its absolute path, as programs do that search for it themselves.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include <dlfcn.h>
#include <link.h>

#include <string>

#include "../common/route_job.hpp"

int main() {
  // Where the loader finds it is where this machine has it; the handle used below comes from the path alone.
  void* const found = dlopen("libcuda.so.1", RTLD_LAZY);
  EXPECT(found != nullptr);
  link_map* map = nullptr;
  EXPECT(dlinfo(found, RTLD_DI_LINKMAP, &map) == 0);
  char absolute[4096];
  EXPECT(realpath(map->l_name, absolute) != nullptr);
  EXPECT(dlclose(found) == 0);
  void* const handle = dlopen(absolute, RTLD_NOW);
  EXPECT(handle != nullptr);
  return lg::run_route_job(lg::driver_by_symbol([=](const char* symbol) { return dlsym(handle, symbol); }));
}
