// A small runtime that makes the driver calls of NVIDIA's static CUDA runtime 13.0, in the same order. With LG_RUNTIME=11080, 12000, 12040 or
// 12090 it looks up what the runtime of that version looks up, and uses no other function.
//
// It exists because NVIDIA's runtime has the driver prove that NVIDIA made it, which the simulated driver cannot. A program on top of this
// one reaches the driver as nvcc's output does: dlopen of libcuda.so.1, dlsym of cuGetProcAddress_v2, everything else through that; one
// 24-byte fat binary wrapper a translation unit in .nvFatBinSegment; the library of a translation unit loaded at its first launch, or all of
// them before there is a context when cuModuleGetLoadingMode answers EAGER.
//
// Must not link the driver, must not load anything earlier than the real runtime does, and must not hold a lock across a launch.
//
// Where it differs, and why: the real runtime also calls cuGetExportTable (left out: nothing documents the tables), and makes the primary
// context current through such a table, where this one calls cuCtxSetCurrent.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "image.hpp"

// As in the real runtime, so that reports take these functions for the runtime's.
namespace cudart {

using lg::FatbinWrapper;

// Room for a fat binary. nvcc writes it into the object; here it is filled from a file as soon as the driver is known, which is before there
// is a context.
struct Fatbin {
  alignas(8) char bytes[256 << 10];
};

// One translation unit with device code. Registers itself before main, as __cudaRegisterFatBinary does.
class Unit {
 public:
  Unit(const char* image_name, const FatbinWrapper* wrapper, Fatbin* fatbin);

 private:
  friend class Runtime;
  const char* image_name_;
  const FatbinWrapper* wrapper_;
  Fatbin* fatbin_;
  CUlibrary library_ = nullptr;
  CUmodule module_ = nullptr;  // only with a driver that has no libraries
  std::map<std::string, CUfunction> kernels_;
};

// Defines the translation unit NAME, whose device code is kernels/NAME.cu. The alignment is said because compilers like to give a
// structure of this size more, and wrappers then no longer lie 24 bytes apart.
#define TWIN_UNIT(NAME)                                                                       \
  static ::cudart::Fatbin fatbin_##NAME;                                                        \
  __attribute__((section(".nvFatBinSegment"), used, aligned(8))) static ::cudart::FatbinWrapper \
      fatbin_wrapper_##NAME = {0x466243b1, 1, &fatbin_##NAME, nullptr};                       \
  static ::cudart::Unit NAME(#NAME, &fatbin_wrapper_##NAME, &fatbin_##NAME)

struct MappedMemory {
  void* host;
  CUdeviceptr device;
};

// The runtime's functions, each named for the one it stands for. Any failure ends the program with exit code 3.
CUstream cudaStreamCreate();
CUstream cudaStreamCreateWithFlags(unsigned flags);
void cudaStreamDestroy(CUstream stream);
void cudaStreamSynchronize(CUstream stream);
void cudaDeviceSynchronize();
void cudaStreamWaitEvent(CUstream stream, CUevent event);
CUevent cudaEventCreateWithFlags(unsigned flags);
void cudaEventRecord(CUevent event, CUstream stream);
void cudaEventDestroy(CUevent event);
CUdeviceptr cudaMalloc(size_t bytes);
void cudaFree(CUdeviceptr memory);
MappedMemory cudaHostAllocMapped(size_t bytes);
void cudaFreeHost(void* memory);
void cudaMemset(CUdeviceptr memory, unsigned char value, size_t bytes);
void cudaMemcpyDeviceToHost(void* to, CUdeviceptr from, size_t bytes);
void cudaMemcpyAsyncHostToDevice(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
void cudaMemcpyAsyncDeviceToHost(void* to, CUdeviceptr from, size_t bytes, CUstream stream);

void launch_kernel(Unit& unit, const char* kernel, unsigned blocks, unsigned threads, CUstream stream, void** parameters);

// kernel<<<blocks, threads, 0, stream>>>(arguments...)
template <class... Arguments>
void launch(Unit& unit, const char* kernel, unsigned blocks, unsigned threads, CUstream stream, Arguments... arguments) {
  void* parameters[] = {static_cast<void*>(&arguments)..., nullptr};
  launch_kernel(unit, kernel, blocks, threads, stream, parameters);
}

}  // namespace cudart

namespace twin = cudart;
