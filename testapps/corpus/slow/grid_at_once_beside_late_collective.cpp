// A collective runs and waits for its peers, which join after two T. A cooperative grid that needs every place of the device starts then.
// expect: slow
// card: yes, alone
#include "../collectives.hpp"

SCENARIO(grid_at_once_beside_late_collective) {
  lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin");
  const lg::MappedWord flag = lg::mapped_word();
  lg::Communicator ranks(code);
  const CUevent behind = lg::event();
  const CUstream only = lg::stream(), grids = lg::stream();
  *flag.host = 1;
  ranks.all_reduce(only, behind);
  lg::head_start();
  CK(lg::launch_cooperative(fill, lg::blocks_that_fill_the_device(), grids, flag.device));
  std::thread peers([&] {
    lg::pass(2);
    ranks.peers_have_joined(1);
  });
  CK(cuStreamSynchronize(grids));
  peers.join();
  CK(cuStreamSynchronize(only));
  std::puts("the grid ran");
  return 0;
}
