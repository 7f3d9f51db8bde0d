// The kernel's functions on the host, as nvcc makes them, on the runtime that the caller names.
#ifndef STACKS_NVCC_STUB_H
#define STACKS_NVCC_STUB_H

#include "played_runtime.h"

__attribute__((noinline)) static CUresult __device_stub__spin_until(Launches runtime, CUfunction function, CUstream stream, CUdeviceptr word) {
  void *parameters[] = {&word};
  const CUresult result = runtime(function, stream, parameters);
  return result == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

static inline CUresult spin_until(Launches runtime, CUfunction function, CUstream stream, CUdeviceptr word) {
  return __device_stub__spin_until(runtime, function, stream, word);
}

#endif
