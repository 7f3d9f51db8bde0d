// What a program that links the driver directly begins with: the primary context of a device, current on the calling thread.
// Must not load, launch or allocate anything: each program's own calls are what it is about.
#pragma once
#include <cuda.h>

#include "check.hpp"

namespace lg {

struct Session {
  CUdevice device = 0;
  CUcontext context = nullptr;
};

// A rank has the device of its number, if there are enough.
inline Session open_session(int rank = 0) {
  Session session;
  int devices = 1;
  CK(cuInit(0));
  if (rank != 0) CK(cuDeviceGetCount(&devices));
  CK(cuDeviceGet(&session.device, rank % devices));
  CK(cuDevicePrimaryCtxRetain(&session.context, session.device));
  CK(cuCtxSetCurrent(session.context));
  return session;
}

// One block of one thread.
template <class... Arguments>
CUresult launch_one(CUfunction function, CUstream stream, Arguments... arguments) {
  void* parameters[] = {static_cast<void*>(&arguments)..., nullptr};
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

// A word that host and device both see, 0 at first.
struct MappedWord {
  volatile int* host = nullptr;
  CUdeviceptr device = 0;
};

inline MappedWord mapped_word() {
  MappedWord word;
  void* memory = nullptr;
  CK(cuMemHostAlloc(&memory, sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
  CK(cuMemHostGetDevicePointer(&word.device, memory, 0));
  word.host = static_cast<int*>(memory);
  *word.host = 0;
  return word;
}

}  // namespace lg
