// Threads launch short kernels without a pause, three of them on each of three streams, and every kernel ends. A second module is loaded
// meanwhile: the driver brings it in only once the context is idle, which it never is, and the load never returns.
// expect: LG202 culprit=busy_for innocent=step
// reproducer: none, threads feed its streams without a pause
// card: no, because launches were seen to wait behind a load there, so that it has its turn; whether the driver's lock is fair is not known
#include "../corpus.hpp"

SCENARIO(module_load_starves) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  std::atomic<int> fed{0};
  const CUstream streams[] = {lg::stream(), lg::stream(), lg::stream()};
  // So many that one of them at least is in the call at any time, also where threads have to wait for a processor.
  for (int i = 0; i < 9; ++i) {
    std::thread([&, stream = streams[i % 3]] {
      cuCtxSetCurrent(session.context);
      lg::launch_one(step, stream, counter.device);
      for (unsigned long long n = 0;; ++n) {
        lg::launch_one(busy, stream, 100'000ull);
        if (n == 500) ++fed;
      }
    }).detach();
  }
  while (fed < 9) std::this_thread::yield();
  lg::module("corpus_other");
  std::puts("the second module was loaded");
  std::_Exit(0);
}
