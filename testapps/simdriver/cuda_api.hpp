// The real header, in the form it has for a driver: every versioned symbol declared under its own exported name.
#pragma once

#pragma GCC visibility push(default)
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#pragma GCC visibility pop
