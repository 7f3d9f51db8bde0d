// A function of a module is got while a kernel of a second runs and another stream has been used: to get it is to load it,
// with the barrier that comes of that, though nothing is launched.
// hazard: LG101 call=cuModuleGetFunction kernel=step stream=none confidence=possible
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(function_got_beside_work) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for");
  const CUstream first = lg::stream(), second = lg::stream();
  CK(lg::launch_one(busy, second, 1ull));
  CK(cuStreamSynchronize(second));
  CK(lg::launch_one(busy, first, lg::ms(1000)));
  const CUfunction step = lg::function(code, "step");
  CK(cuStreamSynchronize(first));
  CK(lg::launch_one(step, second, counter.device));
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
