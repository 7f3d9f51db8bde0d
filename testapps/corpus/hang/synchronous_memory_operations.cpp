// The flag for synchronous memory operations is set while a persistent kernel runs: the driver waits for the whole context first.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(synchronous_memory_operations) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  unsigned flags;
  CK(cuCtxGetFlags(&flags));
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuCtxSetFlags(flags | CU_CTX_SYNC_MEMOPS));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
