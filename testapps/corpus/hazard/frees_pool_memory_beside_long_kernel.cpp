// Memory that was allocated in a stream is freed by cuMemFree when a kernel has run for a good while. The call does not wait for it, as it
// does for other memory.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(frees_pool_memory_beside_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream other = lg::stream();
  CUdeviceptr scratch;
  CK(cuMemAllocAsync(&scratch, 4096, other));
  CK(cuStreamSynchronize(other));
  CK(lg::launch_one(busy, lg::stream(), lg::ms(400)));
  lg::nap(200);
  CK(cuMemFree(scratch));
  CK(cuCtxSynchronize());
  std::puts("freed");
  return 0;
}
