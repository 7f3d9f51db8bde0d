// Kernels are used for the first time one behind the other in the only stream there is: each load puts a barrier where the order of the
// stream has one anyway.
// hazard: none
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_kernels_in_one_stream) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word(), flag = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream only = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "busy_for"), only, lg::ms(100)));
  CK(lg::launch_one(lg::kernel(code, "step"), only, counter.device));
  CK(lg::launch_one(lg::kernel(code, "set_flag"), only, flag.device));
  CK(cuStreamSynchronize(only));
  EXPECT(*counter.host == 1 && *flag.host == 1);
  std::puts("all three are done");
  return 0;
}
