// Route: dlsym of the _ptsz and _ptds forms, whose default stream is the thread's own.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include <dlfcn.h>

#include "../common/route_job.hpp"

int main() {
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(handle != nullptr);
  return lg::run_route_job(lg::driver_by_symbol([=](const char* symbol) { return dlsym(handle, symbol); }, true), true);
}
