// With CUDA_LAUNCH_BLOCKING=1 the launch of a collective returns when the peers have joined, after two T.
// expect: slow
// card: yes
#include "../collectives.hpp"

SCENARIO(launch_blocking_late_collective) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  lg::open_session();
  lg::Communicator ranks(lg::module("corpus"));
  const CUevent behind = lg::event();
  const CUstream only = lg::stream();
  std::thread peers([&] {
    lg::pass(2);
    ranks.peers_have_joined(1);
  });
  ranks.all_reduce(only, behind);
  peers.join();
  CK(cuStreamSynchronize(only));
  std::puts("all ranks have joined");
  return 0;
}
