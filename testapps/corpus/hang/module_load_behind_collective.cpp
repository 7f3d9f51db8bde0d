// A collective on a side stream waits for peers, and the thread that would go on to let them join loads a module first.
// expect: LG202 culprit=ncclDevKernel_AllReduce_Sum_f32_RING_LL innocent=cuEventRecord
// with-profile: completes
// card: yes
#include "../collectives.hpp"

SCENARIO(module_load_behind_collective) {
  lg::open_session();
  lg::Communicator ranks(lg::module("corpus"));
  const CUstream side = lg::stream();
  const CUevent before = lg::event(), behind = lg::event();
  CK(cuEventRecord(before, nullptr));
  CK(cuStreamWaitEvent(side, before, 0));
  ranks.all_reduce(side, behind);
  lg::module("corpus_other");
  ranks.peers_have_joined(1);
  CK(cuCtxSynchronize());
  std::puts("all ranks have joined");
  return 0;
}
