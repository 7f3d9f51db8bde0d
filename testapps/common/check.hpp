// Checks of the driver-API programs: CK(call) ends the program with exit code 3 and the error's name on stderr when a driver call fails.
//
// Must not call the driver itself: it is used by programs that reach the driver by every route, and a failing driver is no source for its
// own error text. The names of the errors that can occur here are therefore written out.
#pragma once
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

namespace lg {

inline const char* error_name(int result) {
  switch (result) {
    case CUDA_SUCCESS: return "CUDA_SUCCESS";
    case CUDA_ERROR_INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
    case CUDA_ERROR_OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
    case CUDA_ERROR_NOT_INITIALIZED: return "CUDA_ERROR_NOT_INITIALIZED";
    case CUDA_ERROR_DEINITIALIZED: return "CUDA_ERROR_DEINITIALIZED";
    case CUDA_ERROR_NO_DEVICE: return "CUDA_ERROR_NO_DEVICE";
    case CUDA_ERROR_INVALID_DEVICE: return "CUDA_ERROR_INVALID_DEVICE";
    case CUDA_ERROR_INVALID_IMAGE: return "CUDA_ERROR_INVALID_IMAGE";
    case CUDA_ERROR_INVALID_CONTEXT: return "CUDA_ERROR_INVALID_CONTEXT";
    case CUDA_ERROR_NO_BINARY_FOR_GPU: return "CUDA_ERROR_NO_BINARY_FOR_GPU";
    case CUDA_ERROR_INVALID_HANDLE: return "CUDA_ERROR_INVALID_HANDLE";
    case CUDA_ERROR_NOT_FOUND: return "CUDA_ERROR_NOT_FOUND";
    case CUDA_ERROR_NOT_READY: return "CUDA_ERROR_NOT_READY";
    case CUDA_ERROR_ILLEGAL_ADDRESS: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case CUDA_ERROR_LAUNCH_FAILED: return "CUDA_ERROR_LAUNCH_FAILED";
    case CUDA_ERROR_NOT_SUPPORTED: return "CUDA_ERROR_NOT_SUPPORTED";
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case CUDA_ERROR_UNKNOWN: return "CUDA_ERROR_UNKNOWN";
    default: return "CUDA error";
  }
}

inline void check(int result, const char* call, const char* file, int line) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, error_name(result), result);
  std::fflush(stdout);
  std::_Exit(3);
}

// For results that are wrong without any call having failed.
inline void expect(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: expected %s\n", file, line, what);
  std::fflush(stdout);
  std::_Exit(4);
}

}  // namespace lg

#define CK(call) ::lg::check(static_cast<int>(call), #call, __FILE__, __LINE__)
#define EXPECT(what) ::lg::expect((what), #what, __FILE__, __LINE__)
