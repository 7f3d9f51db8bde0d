// Reaches the driver's own functions through the runtime (cudaGetDriverEntryPointByVersion), and launches with them.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include <cuda.h>
#include <cudaTypedefs.h>

#include "check_runtime.hpp"

__global__ void add(int* out, int value) { *out += value; }

template <class Function>
static Function entry_point(const char* symbol, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
  CK(cudaGetDriverEntryPointByVersion(symbol, &function, version, cudaEnableDefault, &status));
  EXPECT(status == cudaDriverEntryPointSuccess && function != nullptr);
  return reinterpret_cast<Function>(function);
}

int main() {
  int* out = nullptr;
  CK(cudaMalloc(&out, sizeof(int)));
  CK(cudaMemset(out, 0, sizeof(int)));
  cudaStream_t stream;
  CK(cudaStreamCreate(&stream));
  cudaFunction_t function;
  CK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(add)));
  const auto launch = entry_point<PFN_cuLaunchKernel_v4000>("cuLaunchKernel", 4000);
  const auto synchronize = entry_point<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000);
  for (int value = 1; value <= 2; ++value) {
    void* parameters[] = {&out, &value};
    EXPECT(launch(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) == CUDA_SUCCESS);
  }
  EXPECT(synchronize(stream) == CUDA_SUCCESS);
  int sum = 0;
  CK(cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost));
  std::printf("route ok %d\n", sum);
  CK(cudaStreamDestroy(stream));
  CK(cudaFree(out));
  return sum == 3 ? 0 : 4;
}
