// The peers join a collective after two T, and no thread waits for it in a call: the main thread sleeps meanwhile, and synchronizes then.
// expect: slow or none
// card: yes
#include "../collectives.hpp"

SCENARIO(collective_late_outside_the_driver) {
  lg::open_session();
  lg::Communicator ranks(lg::module("corpus"));
  const CUstream only = lg::stream();
  ranks.all_reduce(only, lg::event());
  lg::pass(2);
  ranks.peers_have_joined(1);
  CK(cuStreamSynchronize(only));
  std::puts("all ranks have joined");
  return 0;
}
