// The calls that the hang is made of come in the program's order. A kernel spins or ends at once, a host function waits or returns, a graph's
// nodes and a batch's operations come one by one, and one call repeated may stand for others of its kind. All contexts are of one device.
// Streams have no priority, grids one dimension, and launches no clusters.
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#define CK(call) do { if (const CUresult is = call) std::fprintf(stderr, "%s: error %d\n", #call, is), std::_Exit(1); } while (false)

using Names = std::vector<std::string>;
inline void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
inline void waits_for_ever(void*) { std::promise<void>().get_future().wait(); }
inline void returns(void*) {}
inline void waits_for_ever(CUstream, CUresult, void*) { waits_for_ever(nullptr); }
inline void returns(CUstream, CUresult, void*) {}

// Each kernel has a name of the program's, and spins until the word at its parameter is not zero.
inline std::string code(const Names& kernels, unsigned local_bytes) {
  std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n";
  for (const std::string& kernel : kernels) {
    text += ".visible .entry " + kernel + "(.param .u64 flag)\n{\n  .reg .pred %spins;\n  .reg .u32 %value;\n  .reg .u64 %at;\n";
    if (local_bytes > 0) text += "  .local .align 4 .b8 local[" + std::to_string(local_bytes) + "];\n";
    text += "  ld.param.u64 %at, [flag];\nagain:\n  ld.volatile.u32 %value, [%at];\n";
    if (local_bytes > 0) text += "  .reg .u64 %place;\n  mov.u64 %place, local;\n  cvta.local.u64 %place, %place;\n  st.volatile.u32 [%place], %value;\n";
    text += "  setp.eq.u32 %spins, %value, 0;\n  @%spins bra again;\n  ret;\n}\n";
  }
  return text;
}
inline CUmodule module(const Names& kernels, unsigned local_bytes = 0) {
  CUmodule made;
  CK(cuModuleLoadData(&made, code(kernels, local_bytes).c_str()));
  return made;
}
inline CUfunction function(CUmodule of, const char* name) {
  CUfunction made;
  CK(cuModuleGetFunction(&made, of, name));
  return made;
}
inline void set(CUdeviceptr word, long long value, size_t bytes) { CK(cuMemcpyHtoD(word, &value, bytes)); }
inline CUresult launch(CUfunction kernel, unsigned blocks, unsigned threads, CUstream stream, CUdeviceptr flag, bool at_once = false) {
  void* parameters[] = {&flag};
  if (at_once) return cuLaunchCooperativeKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters);
  return cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
}
inline CUdeviceptr memory(size_t bytes) {
  CUdeviceptr made;
  CK(cuMemAlloc(&made, bytes));
  CK(cuMemsetD8(made, 0, bytes));
  CK(cuCtxSynchronize());
  return made;
}

// The calls come in the order of their numbers. A call that does not return lets the next one come.
static std::atomic<int> turn{1};
template <class Call>
inline void in_turn(int number, CUcontext context, bool returns, Call call) {
  while (turn != number) nap(1);
  CK(cuCtxSetCurrent(context));
  nap(30);
  if (!returns) turn = number + 1;
  CK(call());
  if (returns) turn = number + 1;
}
