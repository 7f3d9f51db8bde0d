// Memory is freed in the order of one stream behind a kernel of two T. A second stream gets other memory of the pool, which grows for it, and its
// kernel of half a T ends meanwhile; then the first stream is waited for.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(pool_grows_beside_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream first = lg::stream(), second = lg::stream();
  CUdeviceptr memory, other;
  CK(cuMemAllocAsync(&memory, 1 << 20, first));
  CK(lg::launch_one(busy, first, lg::pace_ns(2)));
  CK(cuMemFreeAsync(memory, first));
  CK(cuMemAllocAsync(&other, 1 << 20, second));
  CK(lg::launch_one(busy, second, lg::pace_ns(0.5)));
  CK(cuStreamSynchronize(second));
  CK(cuStreamSynchronize(first));
  CK(cuMemFreeAsync(other, second));
  CK(cuStreamSynchronize(second));
  std::puts("both ended");
  return 0;
}
