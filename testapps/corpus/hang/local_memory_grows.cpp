// A loaded kernel that needs more local memory a thread than the context has is launched while a persistent kernel runs: the
// launch waits until local memory can be resized.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(local_memory_grows) {
  const lg::LocalMemory of;
  CK(lg::launch_one(of.spin, lg::stream(), of.stop.device));
  CK(lg::launch_one(of.large, lg::stream(), of.counter.device, 3));
  *of.stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
