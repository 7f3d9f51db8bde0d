// The plugin of route_constructor.
#include <dlfcn.h>

#include "../common/route_job.hpp"

extern "C" {
int route_outcome = 4;
}

__attribute__((constructor)) static void run_inside_dlopen() {
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(handle != nullptr);
  route_outcome = lg::run_route_job(lg::driver_by_symbol([=](const char* symbol) { return dlsym(handle, symbol); }));
}
