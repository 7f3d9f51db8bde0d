// build: -fvisibility=hidden
// A second interposer of the kind of HAMi-core, for route_dlsym_interposer: it takes the program's look-ups as well. It starts at the first
// one of a driver function, and cannot answer cuGetProcAddress before. It exports cuLaunchKernel, and hands out the rest by dlsym alone.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>

namespace {

#if defined(__aarch64__)
constexpr const char* kVersion = "GLIBC_2.17";
#else
constexpr const char* kVersion = "GLIBC_2.2.5";
#endif

using Dlsym = void* (*)(void*, const char*);

int launches = 0;
decltype(&::cuGetProcAddress_v2) next_get_proc_address = nullptr;
decltype(&::cuLaunchKernel) next_launch = nullptr;

Dlsym real() {
  // By version, because the name alone may lead to this library's own.
  static const auto found = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", kVersion));
  return found;
}

void start() {
  if (next_launch != nullptr) return;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  next_get_proc_address = reinterpret_cast<decltype(next_get_proc_address)>(real()(driver, "cuGetProcAddress_v2"));
  next_launch = reinterpret_cast<decltype(next_launch)>(real()(driver, "cuLaunchKernel"));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                                                       unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                                                       unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                                                       void** kernelParams, void** extra) {
  ++launches;
  return next_launch(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* symbolStatus) {
  if (next_get_proc_address == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = next_get_proc_address(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (result == CUDA_SUCCESS && std::strcmp(symbol, "cuLaunchKernel") == 0) *pfn = reinterpret_cast<void*>(&cuLaunchKernel);
  return result;
}

__attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  if (std::strcmp(name, "lg_interposed_launches") == 0) return &launches;
  if (std::strncmp(name, "cu", 2) == 0) start();
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) return reinterpret_cast<void*>(&cuGetProcAddress_v2);
  return real()(handle, name);
}
}
