// The functions of the library that the program, or the shared object, is linked with.
#pragma once
#include "job.hpp"

namespace lg {

inline Nccl linked_nccl() {
#define LG_ADDRESS(name) &nccl##name,
  return {LG_NCCL_FUNCTIONS(LG_ADDRESS)};
#undef LG_ADDRESS
}

}  // namespace lg
