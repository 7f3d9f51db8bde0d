// The program of function_got_beside_work under the guard, which loads ahead: the function was loaded with its module, before the first
// kernel was launched.
// A busy machine may take longer over that than the guard allows itself, so it is allowed more.
// hazard: none
// prevented: LG101 call=cuModuleGetFunction kernel=step stream=none
// env: LAZYGUARD_PRELOAD_SHARE=100
// card: yes
#include "../corpus.hpp"

SCENARIO(got_function_loaded_ahead) {
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
