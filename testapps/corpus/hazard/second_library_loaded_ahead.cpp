// The program of second_library_beside_work under the guard, which loads ahead: the second library was brought in, and its kernel
// loaded, before the first kernel was launched. A second kernel of that library would have been loaded behind a barrier then.
// A busy machine may take longer over that than the guard allows itself, so it is allowed more.
// hazard: none
// prevented: LG102 call=cuLaunchKernel kernel=other_step stream=non-blocking
// prevented: LG101 call=cuLaunchKernel kernel=other_set stream=non-blocking
// env: LAZYGUARD_PRELOAD_SHARE=100
// card: yes, alone
#include "../corpus.hpp"

SCENARIO(second_library_loaded_ahead) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word(), flag = lg::mapped_word();
  const CUlibrary code = lg::library("corpus"), other = lg::library("corpus_other");
  const CUstream first = lg::stream(), second = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "busy_for"), first, lg::ms(1000)));
  CK(lg::launch_one(lg::kernel(other, "other_step"), second, counter.device));
  CK(lg::launch_one(lg::kernel(other, "other_set"), second, flag.device));
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 1 && *flag.host == 1);
  std::puts("all are done");
  return 0;
}
