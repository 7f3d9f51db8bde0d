// The small job that every route program does, with driver functions that the program found by its own route.
//
// The route is all that differs between those programs: whatever `find` answers is called. Must not link the driver: a direct reference
// to one of its functions would be a second route.
#pragma once
#include <cuda.h>

#include <cstdio>
#include <string>

#include "check.hpp"
#include "image.hpp"

namespace lg {

// The functions of the job. `name` is the exported symbol, `base` and `version` what cuGetProcAddress wants to hear.
#define LG_ROUTE_FUNCTIONS(X)                                             \
  X(init, cuInit, "cuInit", "cuInit", 2000)                               \
  X(device_get, cuDeviceGet, "cuDeviceGet", "cuDeviceGet", 2000)          \
  X(device_get_name, cuDeviceGetName, "cuDeviceGetName", "cuDeviceGetName", 2000) \
  X(primary_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000) \
  X(set_current, cuCtxSetCurrent, "cuCtxSetCurrent", "cuCtxSetCurrent", 4000) \
  X(stream_create, cuStreamCreate, "cuStreamCreate", "cuStreamCreate", 2000) \
  X(stream_destroy, cuStreamDestroy, "cuStreamDestroy_v2", "cuStreamDestroy", 4000) \
  X(mem_alloc, cuMemAlloc, "cuMemAlloc_v2", "cuMemAlloc", 3020)           \
  X(mem_free, cuMemFree, "cuMemFree_v2", "cuMemFree", 3020)               \
  X(library_load, cuLibraryLoadData, "cuLibraryLoadData", "cuLibraryLoadData", 12000) \
  X(library_kernel, cuLibraryGetKernel, "cuLibraryGetKernel", "cuLibraryGetKernel", 12000) \
  X(library_unload, cuLibraryUnload, "cuLibraryUnload", "cuLibraryUnload", 12000)

// Those that come in a per-thread default stream form as well: exported suffix, and the version that form came with.
#define LG_ROUTE_STREAM_FUNCTIONS(X)                                                        \
  X(memset, cuMemsetD32, "cuMemsetD32_v2", "cuMemsetD32", 3020, 7000, "_ptds")              \
  X(copy_back, cuMemcpyDtoH, "cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020, 7000, "_ptds")        \
  X(launch, cuLaunchKernel, "cuLaunchKernel", "cuLaunchKernel", 4000, 7000, "_ptsz")        \
  X(synchronize, cuStreamSynchronize, "cuStreamSynchronize", "cuStreamSynchronize", 2000, 7000, "_ptsz")

struct Driver {
#define X(field, function, ...) decltype(&::function) field = nullptr;
  LG_ROUTE_FUNCTIONS(X)
  LG_ROUTE_STREAM_FUNCTIONS(X)
#undef X
};

template <class Function>
void set(Function& field, void* found, const std::string& symbol) {
  if (found == nullptr) {
    std::fprintf(stderr, "this route does not lead to %s\n", symbol.c_str());
    std::fflush(stdout);
    std::_Exit(3);
  }
  field = reinterpret_cast<Function>(found);
}

// For routes by exported symbol: find(symbol) -> void*.
template <class Find>
Driver driver_by_symbol(Find find, bool per_thread = false) {
  Driver driver;
#define X(field, function, symbol, base, version) set(driver.field, find(symbol), symbol);
  LG_ROUTE_FUNCTIONS(X)
#undef X
#define X(field, function, symbol, base, version, per_thread_version, suffix)       \
  {                                                                                 \
    const std::string name = per_thread ? std::string(symbol) + suffix : symbol;    \
    set(driver.field, find(name.c_str()), name);                                    \
  }
  LG_ROUTE_STREAM_FUNCTIONS(X)
#undef X
  return driver;
}

// For routes by cuGetProcAddress: find(base name, version) -> void*.
template <class Find>
Driver driver_by_version(Find find, bool per_thread = false) {
  Driver driver;
#define X(field, function, symbol, base, version) set(driver.field, find(base, version), base);
  LG_ROUTE_FUNCTIONS(X)
#undef X
#define X(field, function, symbol, base, version, per_thread_version, suffix) \
  set(driver.field, find(base, per_thread ? per_thread_version : version), base);
  LG_ROUTE_STREAM_FUNCTIONS(X)
#undef X
  return driver;
}

// Two launches on a stream of its own, or on the default stream when the route is about which default stream that is.
inline int run_route_job(const Driver& driver, bool default_stream = false) {
  CUdevice device;
  CUcontext context;
  CUstream stream = nullptr;
  CUdeviceptr out;
  CUlibrary library;
  CUkernel add;
  char device_name[256];
  CK(driver.init(0));
  CK(driver.device_get(&device, 0));
  CK(driver.device_get_name(device_name, sizeof device_name, device));
  CK(driver.primary_retain(&context, device));
  CK(driver.set_current(context));
  if (!default_stream) CK(driver.stream_create(&stream, CU_STREAM_DEFAULT));
  const auto code = image("job", device_name);
  CK(driver.library_load(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(driver.library_kernel(&add, library, "add"));
  CK(driver.mem_alloc(&out, sizeof(int)));
  CK(driver.memset(out, 0, 1));
  for (int value = 1; value <= 2; ++value) {
    void* parameters[] = {&out, &value};
    CK(driver.launch(reinterpret_cast<CUfunction>(add), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }
  CK(driver.synchronize(stream));
  int sum = 0;
  CK(driver.copy_back(&sum, out, sizeof sum));
  CK(driver.mem_free(out));
  if (!default_stream) CK(driver.stream_destroy(stream));
  CK(driver.library_unload(library));
  std::printf("route ok %d\n", sum);
  std::fflush(stdout);
  return sum == 3 ? 0 : 4;
}

}  // namespace lg
