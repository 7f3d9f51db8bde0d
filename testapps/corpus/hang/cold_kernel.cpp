// A kernel of the same library as the persistent one is launched for the first time while that one runs: its load puts a barrier
// behind the persistent kernel, and the host, which would end that one afterwards, waits for the launch.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_kernel) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));
  CK(lg::launch_one(lg::kernel(code, "step"), work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 1);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("one step beside the persistent kernel");
  return 0;
}
