// A cooperative grid is on every multiprocessor, and kernels on two other streams come behind it by an event each: the first waits for the
// grid, the second for the first. They find no place before it has ended, and were not to begin before that.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_behind_resident_grid) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), step = lg::function(code, "step");
  const CUstream filled = lg::stream(), second = lg::stream(), third = lg::stream();
  const CUevent after_grid = lg::event(), after_step = lg::event();
  CK(lg::launch_cooperative(fill, lg::blocks_that_fill_the_device(), filled, stop.device));
  CK(cuEventRecord(after_grid, filled));
  CK(cuStreamWaitEvent(second, after_grid, 0));
  CK(lg::launch_one(step, second, counter.device));
  CK(cuEventRecord(after_step, second));
  CK(cuStreamWaitEvent(third, after_step, 0));
  CK(lg::launch_one(step, third, counter.device));
  lg::nap(100);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 2);
  std::puts("all are done");
  return 0;
}
