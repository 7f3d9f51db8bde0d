// Host nanoseconds for one launch of a kernel that does nothing: the figure that recording every launch is measured by.
//
// Prints one line: launch_ns median=... best=... batches=... A batch is timed as a whole and followed by a synchronize outside the timing,
// so that the launch queue never fills. Must not allocate or print between the batches.
//
// Usage: launch_bench [BATCHES]
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.hpp"
#include "image.hpp"

namespace {

constexpr int kLaunchesPerBatch = 400;
constexpr int kWarmUpBatches = 20;

double batch_ns_per_launch(CUfunction kernel, CUstream stream) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunchesPerBatch; ++i) CK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  const auto end = std::chrono::steady_clock::now();
  CK(cuStreamSynchronize(stream));
  return std::chrono::duration<double, std::nano>(end - begin).count() / kLaunchesPerBatch;
}

}  // namespace

int main(int argc, char** argv) {
  const int batches = argc > 1 ? std::atoi(argv[1]) : 300;
  EXPECT(batches > 0);
  CUdevice device;
  CUcontext context;
  CK(cuInit(0));
  CK(cuDeviceGet(&device, 0));
  CK(cuDevicePrimaryCtxRetain(&context, device));
  CK(cuCtxSetCurrent(context));
  const std::vector<char> code = lg::image("job");
  CUmodule module;
  CUfunction kernel;
  CUstream stream;
  CK(cuModuleLoadData(&module, code.data()));
  CK(cuModuleGetFunction(&kernel, module, "nothing"));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < kWarmUpBatches; ++i) batch_ns_per_launch(kernel, stream);
  std::vector<double> nanoseconds(static_cast<size_t>(batches));
  for (double& entry : nanoseconds) entry = batch_ns_per_launch(kernel, stream);
  std::sort(nanoseconds.begin(), nanoseconds.end());
  std::printf("launch_ns median=%.1f best=%.1f batches=%d\n", nanoseconds[nanoseconds.size() / 2], nanoseconds.front(), batches);
  CK(cuStreamDestroy(stream));
  CK(cuModuleUnload(module));
  CK(cuDevicePrimaryCtxRelease(device));
  return 0;
}
