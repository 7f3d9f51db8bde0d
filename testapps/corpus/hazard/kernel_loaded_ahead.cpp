// The program of cold_kernel_beside_work under the guard, which loads ahead: the second kernel was loaded before the first was launched.
// A busy machine may take longer over that than the guard allows itself, so it is allowed more.
// hazard: none
// prevented: LG101 call=cuLaunchKernel kernel=step stream=non-blocking
// env: LAZYGUARD_PRELOAD_SHARE=100
// card: yes
#include "../corpus.hpp"

SCENARIO(kernel_loaded_ahead) {
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
