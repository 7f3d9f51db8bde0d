// A kernel never ends, and three threads launch short kernels on other streams without a pause, each of which ends. A second module is
// loaded meanwhile: it is the one kernel that it waits for in vain, and not the streams that are fed.
// expect: LG202 culprit=spin_until innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(module_load_beside_a_fed_stream) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  std::atomic<int> fed{0};
  CK(lg::launch_one(spin, lg::stream(), never_set.device));
  for (int i = 0; i < 3; ++i) {
    std::thread([&, stream = lg::stream()] {
      cuCtxSetCurrent(session.context);
      lg::launch_one(busy, stream, 20'000ull);
      for (++fed;;) lg::launch_one(busy, stream, 20'000ull);
    }).detach();
  }
  while (fed < 3) std::this_thread::yield();
  lg::module("corpus_other");
  std::puts("the second module was loaded");
  std::_Exit(0);
}
