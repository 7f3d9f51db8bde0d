// The functions of the header that this driver does not play: arrays, textures, peers, inter-process handles, graphics, external
// memory, green contexts and others. They are exported, as a driver exports them, and answer CUDA_ERROR_NOT_SUPPORTED.
#include "entry.hpp"

#define NOT_PLAYED(name, parameters)  \
  CUresult name parameters {          \
    ENTER();                          \
    return CUDA_ERROR_NOT_SUPPORTED;  \
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "not-played.inc"
#pragma GCC diagnostic pop
#undef NOT_PLAYED
