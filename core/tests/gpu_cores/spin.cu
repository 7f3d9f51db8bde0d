// Kernels that stand in different ways.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
__device__ __noinline__ void inner_spin(volatile int* f) {
  while (!*f) {
  }
}
__device__ __forceinline__ void inlined_spin(volatile int* f) {
  while (!*f) {
    __nanosleep(100);
  }
}
__global__ void innocent(int* o) { o[threadIdx.x] = 1; }
__global__ void barrier_and_spin(volatile int* f, int* o) {
  if (threadIdx.x == 37) inner_spin(f);
  __syncthreads();
  o[0] = 2;
}
__global__ void diverged(volatile int* f, int* o) {
  if (threadIdx.x % 2) {
    inlined_spin(f);
  } else {
    inner_spin(f);
  }
  o[0] = 3;
}
__global__ void warp_sync(volatile int* f, int* o) {
  if (threadIdx.x == 5) inner_spin(f);
  __syncwarp();
  o[threadIdx.x] = 3;
}
__global__ void some_exited(volatile int* f, int* o) {
  if (threadIdx.x > 40) return;
  inlined_spin(f);
  o[0] = 4;
}
__global__ void grid_sync(volatile int* f, int* o) {
  if (blockIdx.x == 1) inner_spin(f);
  cooperative_groups::this_grid().sync();
  o[0] = 5;
}
__global__ void lock_taken(int* lock, int* o) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  o[0] = 6;
  // never released
}
__global__ void traps(int* o) { if (threadIdx.x == 3) *(volatile int*)0x10 = 1; o[0] = 7; }
template <class T> __global__ void of_template(T* f, int* o) {
  while (!*(volatile T*)f) {
  }
  o[0] = 8;
}
__global__ void exits_one_by_one(volatile int* f, int* o) {
  if (blockIdx.x % 2 == 0) return;
  while (!*f) {
  }
  o[0] = 9;
}
int main(int c, char** v) {
  int *h, *o, *lock;
  cudaHostAlloc(&h, 64, 0);
  memset(h, 0, 64);
  cudaMalloc(&o, 4096);
  cudaMalloc(&lock, 4);
  cudaMemset(lock, 0, 4);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, 1);
  cudaStreamCreateWithFlags(&b, 1);
  innocent<<<1, 32, 0, b>>>(o);
  cudaDeviceSynchronize();
  const char* n = v[1];
  if (!strcmp(n, "barrier_and_spin")) barrier_and_spin<<<2, 64, 0, a>>>(h, o);
  if (!strcmp(n, "diverged")) diverged<<<3, 96, 0, a>>>(h, o);
  if (!strcmp(n, "warp_sync")) warp_sync<<<1, 32, 0, a>>>(h, o);
  if (!strcmp(n, "some_exited")) some_exited<<<2, 128, 0, a>>>(h, o);
  if (!strcmp(n, "grid_sync")) { void* args[] = {&h, &o}; cudaLaunchCooperativeKernel((void*)grid_sync, dim3(4), dim3(64), args, 0, a); }
  if (!strcmp(n, "lock_taken")) lock_taken<<<2, 32, 0, a>>>(lock, o);
  if (!strcmp(n, "of_template")) of_template<long long><<<dim3(2, 2), dim3(8, 8, 2), 0, a>>>((long long*)h, o);
  if (!strcmp(n, "exits_one_by_one")) exits_one_by_one<<<8, 64, 0, a>>>(h, o);
  if (!strcmp(n, "traps")) traps<<<1, 64, 0, a>>>(o);
  if (!strcmp(n, "two_kernels")) { of_template<int><<<2, 64, 0, a>>>(h, o); barrier_and_spin<<<1, 64, 0, b>>>(h, o); }
  int r = cudaDeviceSynchronize();
  fprintf(stderr, "synchronize: %d\n", r);
  fprintf(stderr, "next: launch ");
  innocent<<<1, 32, 0, b>>>(o);
  fprintf(stderr, "%d, free %d, malloc %d\n", cudaGetLastError(), cudaFree(o), cudaMalloc(&o, 4));
  return r != 0;
}
