// Route: cuGetProcAddress, the four-argument form of CUDA 11.3, by dlsym.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include "../common/route_job.hpp"

int main() {
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(handle != nullptr);
  const auto get = reinterpret_cast<PFN_cuGetProcAddress_v11030>(dlsym(handle, "cuGetProcAddress"));
  EXPECT(get != nullptr);
  return lg::run_route_job(lg::driver_by_version([=](const char* base, int version) {
    void* function = nullptr;
    CK(get(base, &function, version, CU_GET_PROC_ADDRESS_DEFAULT));
    return function;
  }));
}
