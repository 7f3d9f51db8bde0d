// Memory is freed in the order of a stream while a kernel of a quarter of a second has run for a good while, and other memory as soon as a
// short kernel was submitted: the one call waits for nothing, and the other not for long.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(frees_at_once) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr scratch = lg::device_words(1024);
  const CUstream works = lg::stream(), other = lg::stream();
  CUdeviceptr pooled;
  CK(cuMemAllocAsync(&pooled, 4096, other));
  CK(cuStreamSynchronize(other));
  CK(lg::launch_one(busy, works, lg::ms(250)));
  lg::nap(150);
  CK(cuMemFreeAsync(pooled, other));
  CK(cuStreamSynchronize(works));
  CK(lg::launch_one(busy, works, lg::ms(10)));
  CK(cuMemFree(scratch));
  CK(cuStreamSynchronize(other));
  std::puts("freed");
  return 0;
}
