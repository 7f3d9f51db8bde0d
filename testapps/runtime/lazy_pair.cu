// The posted source unchanged below this comment.
// build: --default-stream per-thread
//
// bare:    hangs in cudaDeviceSynchronize (k2 is cold: loading it put a barrier behind k1, which waits for k2)
// guarded: completes, prints nothing
// off:     hangs, LG201
#include <iostream>

__device__ volatile int s = 0;

__global__ void k1(){
  while (s == 0) {};
}

__global__ void k2(){
  s = 1;
}

__global__ void k(int x) {
  if (x == 0) {
    while (s == 0) {};
  } else {
    s = 1;
  }
}

int main() {
  cudaStream_t s1, s2;
  cudaStreamCreate(&s1);
  cudaStreamCreate(&s2);
#if 1 //!!!hang
  k1<<<1,1,0,s1>>>();
  k2<<<1,1,0,s2>>>();
#else // works
  k<<<1,1,0,s1>>>(0);
  k<<<1,1,0,s2>>>(1);
#endif
  cudaDeviceSynchronize();
  cudaError_t err = cudaGetLastError();
  if (err != cudaSuccess)
    std::cout << cudaGetErrorString(err) << std::endl;
}
