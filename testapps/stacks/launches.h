// See launches.cpp, which is built in several ways.
#include "image.hpp"
#include "nvcc_stub.h"
#include "session.hpp"

#include <dlfcn.h>

template <class Function>
static Function of_library(const char *library, const char *name) {
  void *loaded = dlopen((lg::folder_of_executable() + "/" + library).c_str(), RTLD_NOW);
  void *found = loaded == nullptr ? nullptr : dlsym(loaded, name);
  if (found == nullptr) std::_Exit(2);
  return reinterpret_cast<Function>(found);
}

int main(int, char **arguments) {
  const std::string kind = arguments[1];
  Launches runtime = cudaLaunchKernel;
  if (kind == "shared") runtime = of_library<Launches>("libcudart_played.so", "cudaLaunchKernel");
  lg::open_session();
  played_runtime_starts();
  CUmodule code;
  CUfunction function;
  CUstream stream;
  CK(cuModuleLoadData(&code, lg::image("corpus", "Simulated").data()));
  CK(cuModuleGetFunction(&function, code, "spin_until"));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const lg::MappedWord set = lg::mapped_word(), never_set = lg::mapped_word();
  *set.host = 1;
  for (int n = 0; n < 8; ++n) CK(spin_until(runtime, function, stream, set.device));
  CK(cuStreamSynchronize(stream));
  if (kind == "library") {
    CK(of_library<decltype(&__device_stub__spin_until)>("liblaunches.so", "launches_for")(runtime, function, stream, never_set.device));
  } else if (kind == "graph") {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec ready;
    CUdeviceptr word = never_set.device;
    void *parameters[] = {&word};
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = function;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = parameters;
    CK(cuGraphCreate(&graph, 0));
    CK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    CK(cuGraphInstantiate(&ready, graph, 0));
    CK(cudaGraphLaunch(ready, stream));  // graph
  } else {
    CK(spin_until(runtime, function, stream, never_set.device));  // launches
  }
  CK(cuStreamSynchronize(stream));
  return 0;
}
