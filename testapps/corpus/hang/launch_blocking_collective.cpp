// With CUDA_LAUNCH_BLOCKING=1 the launch of a rank's collective returns when all ranks have launched theirs. One thread launches for two ranks, so the second
// is never launched. Kernels that ended long ago came before on both streams.
// expect: LG208 culprit=ncclDevKernel_ReduceScatter_Sum_f32_RING_LL innocent=step
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_blocking_collective) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction step = lg::function(code, "step");
  const CUfunction scatter = lg::function(code, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL");
  const CUdeviceptr joined = lg::device_words(2), counter = lg::device_words(1);
  const CUstream streams[] = {lg::stream(), lg::stream()};
  for (const CUstream stream : streams) CK(lg::launch_one(step, stream, counter));
  for (unsigned rank = 0; rank < 2; ++rank) CK(lg::launch_one(scatter, streams[rank], joined, rank, 2u, 1u));
  CK(cuCtxSynchronize());
  std::puts("both ranks have launched");
  return 0;
}
