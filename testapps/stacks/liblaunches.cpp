// The library of the program's own of launches, which launches for it.
//
// build: -fomit-frame-pointer -fno-optimize-sibling-calls
#include "nvcc_stub.h"

extern "C" __attribute__((visibility("default"))) CUresult launches_for(Launches runtime, CUfunction function, CUstream stream, CUdeviceptr word) {
  const CUresult result = spin_until(runtime, function, stream, word);  // for the program
  return result == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}
