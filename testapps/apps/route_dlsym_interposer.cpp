// Route: cuGetProcAddress_v2 by dlsym, with another library in the process that has a dlsym of its own (LD_PRELOAD=libroute_dlsym_interposer.so).
// It has to see every look-up, those of other names as well.
//
// bare:    with the interposer: completes, prints "route ok 3", "interposed launches: 2"
// guarded: completes, same output; with the interposer behind the guard both launches are recorded, with it in front the guard sees none
// off:     completes, no verdict
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include "../common/route_job.hpp"

int main() {
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(handle != nullptr);
  const auto get = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(handle, "cuGetProcAddress_v2"));
  EXPECT(get != nullptr);
  const int result = lg::run_route_job(lg::driver_by_version([=](const char* base, int version) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    CK(get(base, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    return function;
  }));
  // Only the interposer's own dlsym answers this name.
  const auto launches = static_cast<int*>(dlsym(RTLD_DEFAULT, "lg_interposed_launches"));
  std::printf("interposed launches: %d\n", launches == nullptr ? 0 : *launches);
  return result;
}
