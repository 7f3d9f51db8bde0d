// A collective runs on a non-blocking stream and the default stream waits for its event, as in a training; the peers stop before the third. The
// thread synchronizes the default stream. No rule of that stream holds here: the program submitted the wait.
// expect: LG208 culprit=ncclDevKernel_AllReduce_Sum_f32_RING_LL innocent=cuEventRecord
// card: yes
#include "../collectives.hpp"

SCENARIO(default_stream_waits_for_collective) {
  lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction step = lg::function(code, "step");
  const CUdeviceptr counter = lg::device_words(1);
  const CUstream reduces = lg::stream();
  lg::Communicator ranks(code);
  for (unsigned n = 1; n <= 3; ++n) {
    if (n <= 2) ranks.peers_have_joined(n);
    const CUevent reduced = lg::event();
    ranks.all_reduce(reduces, reduced);
    CK(cuStreamWaitEvent(nullptr, reduced, 0));
    CK(lg::launch_one(step, nullptr, counter));
    CK(cuStreamSynchronize(nullptr));
  }
  std::puts("all ranks have joined");
  std::_Exit(0);
}
