// Memory is freed when a kernel of a second and a half has run for a good while, and waits for it.
// hazard: LG104 call=cuMemFree kernel=- stream=none
// card: yes
#include "../corpus.hpp"

SCENARIO(free_beside_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr scratch = lg::device_words(1024);
  CK(lg::launch_one(busy, lg::stream(), lg::ms(1500)));
  lg::nap(200);
  CK(cuMemFree(scratch));
  std::puts("freed");
  return 0;
}
