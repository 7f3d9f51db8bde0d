// A kernel has run for a good while when null pointers are freed, as destructors of empty buffers do, and a limit is set that is not the
// stack's. None of these calls waits for the kernel.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(frees_nothing_beside_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  CK(lg::launch_one(busy, lg::stream(), lg::ms(400)));
  lg::nap(200);
  (void)cuMemFree(0);
  (void)cuMemFreeHost(nullptr);
  CK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
  CK(cuCtxSynchronize());
  std::puts("nothing was freed");
  return 0;
}
