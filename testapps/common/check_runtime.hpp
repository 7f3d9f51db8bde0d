// Checks of the runtime-API programs: CK(call) ends the program with exit code 3 and the error's name when a runtime call fails,
// EXPECT(condition) with 4 when a result is wrong.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace lg {

inline void check(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorName(result));
  std::fflush(stdout);
  std::_Exit(3);
}

inline void expect(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: expected %s\n", file, line, what);
  std::fflush(stdout);
  std::_Exit(4);
}

}  // namespace lg

#define CK(call) ::lg::check((call), #call, __FILE__, __LINE__)
#define EXPECT(what) ::lg::expect((what), #what, __FILE__, __LINE__)
