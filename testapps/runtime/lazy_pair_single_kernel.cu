// The posted source of lazy_pair with its switch set to 0: the control of lazy_pair.
//
// bare:    completes, prints nothing (both launches are of one kernel, which is loaded when the first is made)
// guarded: completes, prints nothing
// off:     completes, no verdict
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
#if 0 //!!!hang
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
