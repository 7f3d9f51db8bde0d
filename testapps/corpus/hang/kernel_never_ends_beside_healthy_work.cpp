// A kernel never ends, and a thread waits for its stream. Another thread of the same context launches and waits on a stream of its own all
// the while, which has nothing to do with it.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(kernel_never_ends_beside_healthy_work) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream spins = lg::stream(), healthy = lg::stream();
  CK(lg::launch_one(busy, healthy, 1ull));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(spin, spins, never_set.device));
  std::thread([&] {
    cuCtxSetCurrent(session.context);
    for (;;) {
      lg::launch_one(busy, healthy, 1'000'000ull);
      cuStreamSynchronize(healthy);
    }
  }).detach();
  CK(cuStreamSynchronize(spins));
  std::puts("the kernel ended");
  std::_Exit(0);
}
