// A collective waits for its peers, and more launches than a stream's queue takes are submitted behind it, by the thread after which the peers would join.
// expect: LG208 culprit=ncclDevKernel_AllReduce_Sum_f32_RING_LL innocent=step
// card: yes
#include "../collectives.hpp"

SCENARIO(queue_full_behind_collective) {
  lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction step = lg::function(code, "step");
  const CUdeviceptr counter = lg::device_words(1);
  lg::Communicator ranks(code);
  const CUevent behind = lg::event();
  const CUstream only = lg::stream();
  ranks.all_reduce(only, behind);
  for (int i = 0; i < 5000; ++i) CK(lg::launch_one(step, only, counter));
  ranks.peers_have_joined(1);
  CK(cuStreamSynchronize(only));
  std::puts("5000 steps");
  return 0;
}
