// A cooperative grid of as many blocks as the device holds runs and waits for a word that the peers write once a collective has begun. The collective finds no
// room beside the grid, and the thread waits for the grid.
// expect: LG206 culprit=fill_and_spin innocent=ncclDevKernel_AllReduce_Sum_f32_RING_LL
// card: yes, alone
#include "../collectives.hpp"

SCENARIO(collective_beside_grid_at_once) {
  lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin");
  const lg::MappedWord flag = lg::mapped_word();
  lg::Communicator ranks(code);
  const CUevent behind = lg::event();
  const CUstream only = lg::stream(), grids = lg::stream();
  CK(lg::launch_cooperative(fill, lg::blocks_that_fill_the_device(), grids, flag.device));
  lg::head_start();
  ranks.all_reduce(only, behind);
  CK(cuStreamSynchronize(grids));
  ranks.peers_have_joined(1);
  CK(cuStreamSynchronize(only));
  std::puts("the grid ended");
  return 0;
}
