// A collective that the peers never join, and no thread waits for it in a call: the main thread waits for a condition variable, as in a
// framework's run-time system, and another one launches and waits on a stream of its own.
// expect: LG208 culprit=ncclDevKernel_AllReduce_Sum_f32_RING_LL innocent=busy_for
// card: yes
#include "../collectives.hpp"

SCENARIO(collective_outside_the_driver) {
  const lg::Session session = lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for");
  lg::Communicator ranks(code);
  const CUstream collective = lg::stream(), healthy = lg::stream();
  CK(lg::launch_one(busy, healthy, 1ull));
  CK(cuCtxSynchronize());
  ranks.all_reduce(collective, lg::event());
  std::thread([&] {
    cuCtxSetCurrent(session.context);
    for (;;) {
      lg::launch_one(busy, healthy, 1'000'000ull);
      cuStreamSynchronize(healthy);
    }
  }).detach();
  static lg::Gate done;
  lg::wait_at(done);
  std::_Exit(0);
}
