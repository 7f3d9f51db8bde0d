// How a program of nvcc launches: the program's line calls the kernel's function on the host, that one the function that nvcc makes of the kernel,
// and that one the runtime, whose functions are local to it but for those of its interface.
//
// Must not be built with calls turned into jumps: each function is to have its frame.
#ifndef STACKS_PLAYED_RUNTIME_H
#define STACKS_PLAYED_RUNTIME_H

#include <cuda.h>

using Launches = CUresult (*)(CUfunction function, CUstream stream, void **parameters);

// The runtime's own, named as in the static one.
__attribute__((noinline)) static CUresult libcudart_static_4d8b33a106dceb3c(CUfunction function, CUstream stream, void **parameters) {
  volatile char room[200] = {1};
  const CUresult result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  return room[0] == 1 ? result : CUDA_ERROR_UNKNOWN;
}

extern "C" __attribute__((noinline)) CUresult cudaLaunchKernel(CUfunction function, CUstream stream, void **parameters) {
  volatile char room[300] = {1};
  const CUresult result = libcudart_static_4d8b33a106dceb3c(function, stream, parameters);
  return room[0] == 1 ? result : CUDA_ERROR_UNKNOWN;
}

__attribute__((noinline)) inline CUresult libcudart_static_69c0d1f77a35b2e8(CUgraphExec graph, CUstream stream) {
  volatile char room[100] = {1};
  const CUresult result = cuGraphLaunch(graph, stream);
  return room[0] == 1 ? result : CUDA_ERROR_UNKNOWN;
}

__attribute__((noinline)) inline CUresult cudaGraphLaunch(CUgraphExec graph, CUstream stream) {
  volatile char room[100] = {1};
  const CUresult result = libcudart_static_69c0d1f77a35b2e8(graph, stream);
  return room[0] == 1 ? result : CUDA_ERROR_UNKNOWN;
}

// A runtime looks hundreds of functions up at its start, and asks for the loading mode.
inline void played_runtime_starts() {
  void *found = nullptr;
  CUdriverProcAddressQueryResult status;
  for (int n = 0; n < 300; ++n) cuGetProcAddress("cuModuleGetLoadingMode", &found, 11070, 0, &status);
  CUmoduleLoadingMode mode;
  if (found != nullptr) reinterpret_cast<decltype(&cuModuleGetLoadingMode)>(found)(&mode);
}

#endif
