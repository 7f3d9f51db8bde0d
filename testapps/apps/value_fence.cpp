// The user stream waits for a value that a worker thread's stream writes after its kernels. The kernel is cold, and so is its
// library.
//
// bare:    hangs: the worker's first cuLaunchKernel waits for the user stream, which waits for what the worker has not submitted yet
// guarded: completes, prints seven lines; main's and the worker's interleave as they like (compare whole lines, in any order)
// off:     hangs, LG202
//
// As in the reported program, the fence's own calls go to the directly linked driver and the rest through the runtime.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <thread>

#include "../common/check.hpp"
#include "../common/runtime_twin.hpp"

TWIN_UNIT(value_fence);

// One write a line, so that two threads never share one.
static void say(const char* line) {
  std::fputs(line, stdout);
  std::fflush(stdout);
}

int main() {
  CK(cuInit(0));
  CUstream user_stream = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);
  CUstream internal_stream = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr d_data = twin::cudaMalloc(sizeof(int));
  CUdeviceptr d_flag = 0;
  CK(cuMemAlloc(&d_flag, sizeof(uint32_t)));
  CK(cuMemsetD32(d_flag, 0u, 1));
  constexpr uint32_t done_value = 1u;

  CK(cuStreamWaitValue32(user_stream, d_flag, done_value, CU_STREAM_WAIT_VALUE_EQ));
  say("Enqueued WaitValue on user stream\n");

  std::thread worker{[internal_stream, d_data, d_flag, done_value] {
    say("[worker] Launching trivial kernels on internal stream...\n");
    constexpr int NUM_JOBS = 5;
    for (int i = 0; i < NUM_JOBS; ++i) twin::launch(value_fence, "trivial_kernel", 1, 1, internal_stream, d_data, i);
    say("[worker] Enqueuing WriteValue on internal_stream\n");
    CK(cuStreamWriteValue32(internal_stream, d_flag, done_value, 0));
    say("[worker] Done enqueuing work on internal_stream\n");
  }};

  twin::launch(value_fence, "trivial_kernel", 1, 1, user_stream, d_data, 42);
  say("Enqueued trivial kernel on user_stream after WaitValue\n");
  say("Synchronising on user_stream (may hang)...\n");
  twin::cudaStreamSynchronize(user_stream);
  say("cudaStreamSynchronize(user_stream) returned: no error\n");
  worker.join();

  // The reported program does not look at the results; this does, without any call that it does not also make before the hang. The flag says
  // nothing: the reported program orders its memset, on the legacy stream, with neither of the non-blocking ones.
  int value = 0;
  twin::cudaMemcpyDeviceToHost(&value, d_data, sizeof value);
  EXPECT(value == 42);

  twin::cudaFree(d_data);
  CK(cuMemFree(d_flag));
  twin::cudaStreamDestroy(user_stream);
  twin::cudaStreamDestroy(internal_stream);
  return 0;
}
