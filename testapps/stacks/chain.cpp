// A driver call through two libraries and back, with nothing built with frame pointers; each library uses the register for something
// else, so that a chain of frame pointers would lead nowhere, or past a frame.
//
// hangs in cuStreamSynchronize: wait_for_stream <- chain_inner <- chain_outer <- main
// build: -fomit-frame-pointer -fno-optimize-sibling-calls
#include "stuck.h"

#include <dlfcn.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <unistd.h>

extern "C" __attribute__((noinline)) int wait_for_stream(void *stream) {
  const CUresult result = cuStreamSynchronize(static_cast<CUstream>(stream));  // the call
  return result == CUDA_SUCCESS ? 0 : 1;
}

int main() {
  char path[PATH_MAX] = "";
  if (readlink("/proc/self/exe", path, sizeof path - 32) < 0) return 2;
  std::strcpy(std::strrchr(path, '/'), "/libchain_outer.so");
  void *outer = dlopen(path, RTLD_NOW);
  if (outer == nullptr) return 2;
  auto *call = reinterpret_cast<int (*)(int (*)(void *), void *)>(dlsym(outer, "chain_outer"));
  if (call == nullptr) return 2;
  stuck_context();
  const int answer = call(wait_for_stream, stuck_stream());  // main
  std::printf("%d\n", answer);
  return answer;
}
