// Collectives as NCCL submits them: around each, one event of its own is recorded again and again, on a stream of its own and on the
// program's. The peers are a count in memory: a collective ends when it has reached its number.
#pragma once
#include "corpus.hpp"

namespace lg {

class Communicator {
 public:
  explicit Communicator(CUmodule code) : all_reduce_(function(code, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")) {}

  // Submits the next collective; the event that PyTorch's watchdog polls is recorded behind it.
  void all_reduce(CUstream on, CUevent behind) {
    CK(cuEventRecord(again_, own_));
    CK(cuStreamWaitEvent(on, again_, 0));
    CK(launch_one(all_reduce_, on, joined_.device, ++submitted_));
    CK(cuEventRecord(again_, on));
    CK(cuStreamWaitEvent(own_, again_, 0));
    CK(cuEventRecord(behind, on));
  }

  // The peers have launched their kernels of the first so many.
  void peers_have_joined(unsigned number) { __atomic_store_n(joined_.host, static_cast<int>(number), __ATOMIC_RELEASE); }

 private:
  CUfunction all_reduce_;
  MappedWord joined_ = mapped_word();
  CUstream own_ = stream();
  CUevent again_ = event();
  unsigned submitted_ = 0;
};

}  // namespace lg
