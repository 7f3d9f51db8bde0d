// Route: cuGetProcAddress obtained from cuGetProcAddress, in both forms: asked with version 11030 it gives the one of four arguments, asked
// with 12000 the one of five. Each finds every other function once.
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
  const auto first = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(handle, "cuGetProcAddress_v2"));
  EXPECT(first != nullptr);
  PFN_cuGetProcAddress_v11030 get_v1 = nullptr;
  PFN_cuGetProcAddress_v12000 get_v2 = nullptr;
  CUdriverProcAddressQueryResult status;
  void* found = nullptr;
  CK(first("cuGetProcAddress", &found, 11030, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  get_v1 = reinterpret_cast<PFN_cuGetProcAddress_v11030>(found);
  CK(first("cuGetProcAddress", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  get_v2 = reinterpret_cast<PFN_cuGetProcAddress_v12000>(found);
  EXPECT(get_v1 != nullptr && get_v2 != nullptr);
  bool odd = false;
  return lg::run_route_job(lg::driver_by_version([&](const char* base, int version) {
    void* function = nullptr;
    odd = !odd;
    if (odd) {
      CK(get_v1(base, &function, version, CU_GET_PROC_ADDRESS_DEFAULT));
    } else {
      status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      CK(get_v2(base, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
      EXPECT(status == CU_GET_PROC_ADDRESS_SUCCESS);
    }
    return function;
  }));
}
