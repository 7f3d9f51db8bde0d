// With CUDA_LAUNCH_BLOCKING=1 each of a few kernels, of half a T and then one of two T, keeps its launch from returning for as long as it runs.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_blocking_with_long_kernels) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  for (const double times : {0.5, 0.5, 2.0}) CK(lg::launch_one(busy, only, lg::pace_ns(times)));
  CK(cuStreamSynchronize(only));
  std::puts("all kernels ended");
  return 0;
}
