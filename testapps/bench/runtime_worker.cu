// A worker (worker.hpp) whose launches are those of CUDA's runtime: a kernel that does nothing, on one stream. For a real driver only.
//
// Usage: runtime_worker [--core C]
#include <cuda_runtime.h>

#include "check_runtime.hpp"
#include "worker.hpp"

namespace {

__global__ void nothing() {}

class Launches {
 public:
  Launches() {
    CK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CK(cudaDeviceSynchronize());
  }
  void enter(int) { CK(cudaSetDevice(0)); }
  int warm_up() const { return bench::kWarmUp; }
  void launch(int, int n) {
    for (int i = 0; i < n; ++i) CK(cudaLaunchKernel(reinterpret_cast<const void*>(&nothing), dim3(1), dim3(1), nullptr, 0, stream_));
  }
  void settle(int) { CK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  Launches launches;
  return bench::Worker<Launches>(launches, 1, bench::option(argc, argv, "--core", -1)).serve();
}
