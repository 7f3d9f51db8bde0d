// Shows by its first argument that work may wait behind other work from then on, while nothing is in flight: communicator,
// communicators, wait, batch, cooperative, launch_ex, elsewhere (in another context), or nothing. Then as persistent_two_libraries.
//
// bare:    hangs in the one-time kernel's cuLaunchKernel (its module cannot enter the context)
// guarded: completes, prints "one-time kernel wrote 42"
// off:     hangs, LG202
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "../common/check.hpp"
#include "../common/image.hpp"
#include "../common/runtime_twin.hpp"
#include "../simnccl/nccl.h"

TWIN_UNIT(persistent_kernel);
TWIN_UNIT(one_time_kernel);

namespace {

// Of one rank: by a call for one rank, or for all devices of the process.
void make_communicator(bool all) {
  void* library = dlopen((lg::folder_of_executable() + "/../simnccl/libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != nullptr);
  const auto init_all = reinterpret_cast<decltype(&ncclCommInitAll)>(dlsym(library, "ncclCommInitAll"));
  const auto init_rank = reinterpret_cast<decltype(&ncclCommInitRank)>(dlsym(library, "ncclCommInitRank"));
  const auto unique_id = reinterpret_cast<decltype(&ncclGetUniqueId)>(dlsym(library, "ncclGetUniqueId"));
  EXPECT(init_all != nullptr && init_rank != nullptr && unique_id != nullptr);
  ncclUniqueId id;
  ncclComm_t communicator = nullptr;
  EXPECT(unique_id(&id) == ncclSuccess);
  EXPECT((all ? init_all(&communicator, 1, nullptr) : init_rank(&communicator, 1, id, 0)) == ncclSuccess);
}

void launch_cooperative(CUfunction function, CUstream stream, bool by_attribute) {
  if (!by_attribute) {
    CK(cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr));
    return;
  }
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CK(cuLaunchKernelEx(&config, function, nullptr, nullptr));
}

// The word is 0.
void wait_in_another_context(CUdeviceptr word) {
  CUcontext own, other;
  CUdevice device;
  CUstream stream;
  CK(cuCtxGetCurrent(&own));
  CK(cuCtxGetDevice(&device));
  CK(cuCtxCreate(&other, nullptr, 0, device));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CK(cuStreamWaitValue32(stream, word, 0, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamSynchronize(stream));
  CK(cuCtxSetCurrent(own));
}

}  // namespace

int main(int, char** arguments) {
  const std::string sign = arguments[1] == nullptr ? "nothing" : arguments[1];
  const twin::MappedMemory words = twin::cudaHostAllocMapped(2 * sizeof(int));
  volatile int* const stop = static_cast<int*>(words.host);
  volatile int* const result = stop + 1;
  *stop = 0;
  *result = 0;
  CUstream persistent = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);
  CUstream one_time = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = words.device;
  operation.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  if (sign == "communicator" || sign == "communicators") make_communicator(sign == "communicators");
  if (sign == "wait") CK(cuStreamWaitValue32(persistent, words.device, 0, CU_STREAM_WAIT_VALUE_EQ));
  if (sign == "batch") CK(cuStreamBatchMemOp(persistent, 1, &operation, 0));
  if (sign == "cooperative" || sign == "launch_ex") {
    CUmodule module;
    CUfunction nothing;
    const auto code = lg::image("job");
    CK(cuModuleLoadData(&module, code.data()));
    CK(cuModuleGetFunction(&nothing, module, "nothing"));
    launch_cooperative(nothing, persistent, sign == "launch_ex");
  }
  if (sign == "elsewhere") {
    // The primary context has everything that the persistent kernel needs, so that its launch loads nothing.
    *stop = 1;
    twin::launch(persistent_kernel, "persistent_kernel", 1, 1, persistent, words.device);
    twin::cudaStreamSynchronize(persistent);
    *stop = 0;
    wait_in_another_context(words.device);
  }
  twin::cudaStreamSynchronize(persistent);

  twin::launch(persistent_kernel, "persistent_kernel", 1, 1, persistent, words.device);
  twin::launch(one_time_kernel, "one_time_kernel", 1, 1, one_time, words.device + sizeof(int));
  twin::cudaStreamSynchronize(one_time);
  EXPECT(*result == 42);
  std::puts("one-time kernel wrote 42");
  *stop = 1;
  twin::cudaStreamSynchronize(persistent);
  twin::cudaStreamDestroy(persistent);
  twin::cudaStreamDestroy(one_time);
  twin::cudaFreeHost(words.host);
  return 0;
}
