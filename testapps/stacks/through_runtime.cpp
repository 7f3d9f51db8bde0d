// A call of the CUDA runtime, which is part of the program and has no frame pointers: the driver's caller is the runtime, and the line
// that matters is further out.
//
// hangs in cuStreamSynchronize: the runtime's own frames <- wait_by_runtime <- main; on a card, since the runtime does not start on the
// simulated driver
// build: -lcudart_static -ldl -lrt -lpthread
#include "stuck.h"

#include <cuda_runtime_api.h>

#include <cstdio>

__attribute__((noinline)) static int wait_by_runtime(CUstream stream) {
  const cudaError_t error = cudaStreamSynchronize(stream);  // the call
  return error == cudaSuccess ? 0 : 1;
}

int main() {
  if (cudaSetDevice(0) != cudaSuccess || cudaFree(nullptr) != cudaSuccess) return 2;
  const int answer = wait_by_runtime(stuck_stream());  // main
  std::printf("%d\n", answer);
  return answer;
}
