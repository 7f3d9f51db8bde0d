// The first kernel of a second library is launched while a kernel of the first runs for a second on another stream: the library
// is brought into the context, and the launch waits for that to end.
// hazard: LG102 call=cuLaunchKernel kernel=other_step stream=non-blocking confidence=possible
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(second_library_beside_work) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus"), other = lg::library("corpus_other");
  const CUstream first = lg::stream(), second = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "busy_for"), first, lg::ms(1000)));
  CK(lg::launch_one(lg::kernel(other, "other_step"), second, counter.device));
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
