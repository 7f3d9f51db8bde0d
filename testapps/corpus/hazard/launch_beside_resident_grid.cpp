// A cooperative grid is on every multiprocessor, and a kernel on another stream, which it does not wait for, finds a place only when the
// grid has ended. The host ends it after a tenth of a second.
// hazard: LG109 call=cuLaunchKernel kernel=step stream=non-blocking
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_beside_resident_grid) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), step = lg::function(code, "step");
  const CUstream filled = lg::stream(), other = lg::stream();
  CK(lg::launch_cooperative(fill, lg::blocks_that_fill_the_device(), filled, stop.device));
  CK(lg::launch_one(step, other, counter.device));
  lg::nap(100);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
