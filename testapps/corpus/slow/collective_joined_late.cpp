// The peers join a collective after two T, and a thread waits for it.
// expect: slow
// card: yes
#include "../collectives.hpp"

SCENARIO(collective_joined_late) {
  lg::open_session();
  lg::Communicator ranks(lg::module("corpus"));
  const CUevent behind = lg::event();
  const CUstream only = lg::stream();
  ranks.all_reduce(only, behind);
  std::thread peers([&] {
    lg::pass(2);
    ranks.peers_have_joined(1);
  });
  CK(cuStreamSynchronize(only));
  peers.join();
  std::puts("all ranks have joined");
  return 0;
}
