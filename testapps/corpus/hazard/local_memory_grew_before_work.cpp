// The kernel that needs most local memory is launched once when nothing is in flight, and then again while a kernel runs on another stream:
// there is enough by then.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(local_memory_grew_before_work) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), large = lg::function(code, "many_locals");
  const CUstream first = lg::stream(), second = lg::stream();
  CK(lg::launch_one(large, second, counter.device, 3));
  CK(cuStreamSynchronize(second));
  CK(lg::launch_one(busy, first, lg::ms(100)));
  CK(lg::launch_one(large, second, counter.device, 3));
  CK(cuCtxSynchronize());
  std::puts("both are done");
  return 0;
}
