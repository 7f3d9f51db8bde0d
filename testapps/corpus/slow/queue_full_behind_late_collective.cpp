// A collective waits for its peers, which join after two T. More launches than a stream's queue takes are submitted behind it meanwhile.
// expect: slow
// card: yes
#include "../collectives.hpp"

SCENARIO(queue_full_behind_late_collective) {
  lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction step = lg::function(code, "step");
  const CUdeviceptr counter = lg::device_words(1);
  lg::Communicator ranks(code);
  const CUevent behind = lg::event();
  const CUstream only = lg::stream();
  ranks.all_reduce(only, behind);
  std::thread peers([&] {
    lg::pass(2);
    ranks.peers_have_joined(1);
  });
  for (int i = 0; i < 2000; ++i) CK(lg::launch_one(step, only, counter));
  peers.join();
  CK(cuStreamSynchronize(only));
  std::puts("2000 steps");
  return 0;
}
