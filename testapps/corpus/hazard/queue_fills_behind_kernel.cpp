// Two thousand launches are submitted behind a kernel of a second, and another such kernel is among the first: the queue takes half
// of them, and the next one holds the host until the first kernel has ended.
// hazard: LG106 call=cuLaunchKernel kernel=step stream=non-blocking
// card: yes
#include "../corpus.hpp"

SCENARIO(queue_fills_behind_kernel) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::ms(1000)));
  for (int i = 0; i < 2000; ++i) {
    CK(lg::launch_one(step, only, counter.device));
    // So that the stream is still busy when the launch that was held has returned.
    if (i == 500) CK(lg::launch_one(busy, only, lg::ms(1000)));
  }
  CK(cuStreamSynchronize(only));
  EXPECT(*counter.host == 2000);
  std::puts("2000 steps");
  return 0;
}
