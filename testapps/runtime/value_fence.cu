// The posted reproducer unchanged below this comment.
//
// bare:    hangs: the worker's first launch waits for the user stream, which waits for what the worker has not submitted yet
// guarded: completes, prints seven lines; main's and the worker's pieces interleave as they like (compare bytes in any order)
// off:     hangs, LG202
#include <iostream>
#include <thread>
#include <cassert>

#include <cuda_runtime.h>
#include <cuda.h>

__global__ void trivial_kernel(int *data, int value) {
  // Just touch one int so we have *some* kernel work
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    data[0] = value;
  }
}

int main() {
  cuInit(0);
  
  // Create streams
  cudaStream_t user_stream;
  cudaStream_t internal_stream;
  cudaStreamCreateWithFlags(&user_stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&internal_stream, cudaStreamNonBlocking);

  // Simple device buffe for the kernel to touch
  int *d_data = nullptr;
  cudaMalloc(&d_data, sizeof(int));

  // Allocate the fence flag using the driver API
  CUdeviceptr d_flag = 0;
  cuMemAlloc(&d_flag, sizeof(uint32_t));

  // Initialise flag to 0
  cuMemsetD32(d_flag, 0u, 1);

  constexpr uint32_t done_value = 1u;

  // Add a wait to the user stream: it will stall until flag == done_value
  {
    CUstream cu_user = reinterpret_cast<CUstream>(user_stream);
    cuStreamWaitValue32(cu_user, d_flag, done_value, CU_STREAM_WAIT_VALUE_EQ);
  }

  std::cout << "Enqueued WaitValue on user stream" << std::endl;

  // Start a worker thread that enqueues work onto the internal stream
  std::thread worker{[internal_stream, d_data, d_flag, done_value]() {
    CUstream cu_internal = reinterpret_cast<CUstream>(internal_stream);

    std::cout << "[worker] Launching trivial kernels on internal stream...\n";

    constexpr int NUM_JOBS = 5;

    for (int i = 0; i < NUM_JOBS; ++i) {
      trivial_kernel<<<1, 1, 0, internal_stream>>>(d_data, i);
      cudaError_t err = cudaGetLastError();
      if (err != cudaSuccess) {
        std::cerr << "[worker] Kernel launch failed: "
                  << cudaGetErrorString(err) << '\n';
        return;
      }
    }

    std::cout << "[worker] Enqueuing WriteValue on internal_stream\n";

    cuStreamWriteValue32(cu_internal, d_flag, done_value, 0);

    std::cout << "[worker] Done enqueuing work on internal_stream\n";
  }};

  // Enqueue some work on the user stream *after* the wait.
  // This work should only run once the flag is set to done_value;
  trivial_kernel<<<1, 1, 0, user_stream>>>(d_data, 42);
  std::cout << "Enqueued trivial kernel on user_stream after WaitValue\n";

  // This is where things may hang:
  std::cout << "Synchronising on user_stream (may hang)...\n";
  cudaError_t sync_err = cudaStreamSynchronize(user_stream);
  std::cout << "cudaStreamSynchronize(user_stream) returned: "
            << cudaGetErrorString(sync_err) << '\n';

  worker.join();

  // Clean up
  cudaFree(d_data);
  cuMemFree(d_flag);
  cudaStreamDestroy(user_stream);
  cudaStreamDestroy(internal_stream);

  return 0;
}
