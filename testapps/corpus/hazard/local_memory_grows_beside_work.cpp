// A loaded kernel that needs more local memory a thread than any before it is launched while a kernel of a second runs on
// another stream: the launch waits for that before local memory can be made larger.
// hazard: LG107 call=cuLaunchKernel kernel=many_locals stream=non-blocking confidence=possible
// card: yes
#include "../corpus.hpp"

SCENARIO(local_memory_grows_beside_work) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), large = lg::function(code, "many_locals");
  CK(lg::launch_one(busy, lg::stream(), lg::ms(1000)));
  CK(lg::launch_one(large, lg::stream(), counter.device, 3));
  CK(cuCtxSynchronize());
  std::puts("both are done");
  return 0;
}
