// A worker (worker.hpp) whose calls are those of CUDA's runtime, on one stream. For a real driver only.
//
// Usage: runtime_worker [--core C]
// Calls: launch, of a kernel that does nothing, which is what it begins with; set-device.
#include <cuda_runtime.h>

#include <cstring>

#include "check_runtime.hpp"
#include "worker.hpp"

namespace {

__global__ void nothing() {}

class Calls {
 public:
  Calls() {
    CK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CK(cudaDeviceSynchronize());
  }
  void enter(int) { CK(cudaSetDevice(0)); }
  int warm_up() const { return bench::kWarmUp; }
  int chunk() const { return bench::kChunk; }
  void choose(const char* name) { launches_ = std::strcmp(name, "launch") == 0; }
  void launch(int, int n) {
    if (!launches_) {
      for (int i = 0; i < n; ++i) CK(cudaSetDevice(0));
      return;
    }
    for (int i = 0; i < n; ++i) CK(cudaLaunchKernel(reinterpret_cast<const void*>(&nothing), dim3(1), dim3(1), nullptr, 0, stream_));
  }
  void settle(int) { CK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
  bool launches_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  Calls calls;
  return bench::Worker<Calls>(calls, 1, bench::option(argc, argv, "--core", -1)).serve();
}
