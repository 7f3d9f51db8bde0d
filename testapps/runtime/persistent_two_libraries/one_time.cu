// Second translation unit of persistent_two_libraries.
#include "one_time.cuh"

__global__ void OneTimeKernel(volatile int* out) { *out = 42; }

void launch_one_time(volatile int* out, cudaStream_t stream) { OneTimeKernel<<<1, 1, 0, stream>>>(out); }
