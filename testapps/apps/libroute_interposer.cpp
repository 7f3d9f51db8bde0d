// Another tool's interposer, for route_interposer: counts launches and passes them on to the next library.
#include <cuda.h>
#include <dlfcn.h>

extern "C" {

int interposed_launches = 0;

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
                                unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                void** kernelParams, void** extra) {
  static const auto next = reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(RTLD_NEXT, "cuLaunchKernel"));
  if (next == nullptr) return CUDA_ERROR_NOT_FOUND;
  ++interposed_launches;
  return next(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}
}
