// A kernel is used for the first time on one stream while a kernel of a second runs on another. The load puts a barrier
// behind that, which ends.
// hazard: LG101 call=cuLaunchKernel kernel=step stream=non-blocking confidence=possible
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_kernel_beside_work) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream first = lg::stream(), second = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "busy_for"), first, lg::ms(1000)));
  CK(lg::launch_one(lg::kernel(code, "step"), second, counter.device));
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
