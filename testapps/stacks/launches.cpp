// A kernel is launched on two lines, as nvcc's programs launch, and ends but for the last launch. The runtime is linked into the program, or a library, or the
// program's own library launches.
//
// hangs in cuStreamSynchronize, behind the launch in main
// build: -fomit-frame-pointer -fno-optimize-sibling-calls
#include "launches.h"
