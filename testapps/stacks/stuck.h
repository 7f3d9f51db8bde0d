/* A stream that waits for a value which is never written: a thread that waits for the stream is stuck, without any device code.
 *
 * Must not print anything, and keep the calls of its own out of the program's: what a test looks at is the stack above the last one. */
#ifndef STACKS_STUCK_H
#define STACKS_STUCK_H

#include <cuda.h>
#include <stdlib.h>

static inline void stuck_check(CUresult result) {
  if (result != CUDA_SUCCESS) exit(3);
}

static inline CUcontext stuck_context(void) {
  CUcontext context;
  stuck_check(cuInit(0));
  stuck_check(cuDevicePrimaryCtxRetain(&context, 0));
  stuck_check(cuCtxSetCurrent(context));
  return context;
}

static inline CUstream stuck_stream(void) {
  CUstream stream;
  CUdeviceptr word;
  stuck_check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  stuck_check(cuMemAlloc(&word, 4));
  stuck_check(cuMemsetD32(word, 0, 1));
  stuck_check(cuStreamWaitValue32(stream, word, 7, CU_STREAM_WAIT_VALUE_EQ));
  return stream;
}

#endif
