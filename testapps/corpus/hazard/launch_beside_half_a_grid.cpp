// A cooperative grid is on half of the multiprocessors, and a kernel on another stream finds a place beside it. Then one that fills the
// device is waited for before the other is launched again. Half of the places would not do: that is a block on each multiprocessor,
// which keeps its memory divided as the grid wants it, and the kernel of small blocks out.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_beside_half_a_grid) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), step = lg::function(code, "step");
  const CUstream filled = lg::stream(), other = lg::stream();
  // Two blocks fit on a multiprocessor, and the first ones go to different ones.
  const unsigned everywhere = lg::blocks_that_fill_the_device();
  CK(lg::launch_cooperative(fill, everywhere / 4, filled, stop.device));
  CK(lg::launch_one(step, other, counter.device));
  CK(cuStreamSynchronize(other));
  *stop.host = 1;
  CK(cuStreamSynchronize(filled));
  CK(lg::launch_cooperative(fill, everywhere, filled, stop.device));
  CK(cuStreamSynchronize(filled));
  CK(lg::launch_one(step, other, counter.device));
  CK(cuStreamSynchronize(other));
  EXPECT(*counter.host == 2);
  std::puts("all are done");
  return 0;
}
