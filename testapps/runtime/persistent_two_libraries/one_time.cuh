// The seam between the two translation units: the launch is made where the kernel is, so that no relocatable device code links them.
#pragma once
#include <cuda_runtime.h>

void launch_one_time(volatile int* out, cudaStream_t stream);
