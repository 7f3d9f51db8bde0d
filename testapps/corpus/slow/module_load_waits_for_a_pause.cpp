// Threads launch very short kernels without a pause, three of them on each of three streams, and a second module is loaded meanwhile. The driver brings
// it in once the context is idle, which is when they stop: one and a half T after the load has begun.
// expect: slow
// card: no, because launches were seen to wait behind a load there, so that it has its turn; whether the driver's lock is fair is not known
#include "../corpus.hpp"

SCENARIO(module_load_waits_for_a_pause) {
  const lg::Session session = lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  std::atomic<int> fed{0};
  std::atomic<bool> pause{false};
  std::vector<std::thread> threads;
  const CUstream streams[] = {lg::stream(), lg::stream(), lg::stream()};
  // So many that one of them at least is in the call at any time, also where threads have to wait for a processor.
  for (int i = 0; i < 9; ++i) {
    threads.push_back(lg::thread_in(session.context, [&, stream = streams[i % 3]] {
      for (unsigned n = 0; !pause; ++n) {
        CK(lg::launch_one(busy, stream, 10'000ull));
        if (n == 500) ++fed;
      }
    }));
  }
  while (fed < 9) std::this_thread::yield();
  threads.emplace_back([&] {
    lg::pass(1.5);
    pause = true;
  });
  lg::module("corpus_other");
  for (std::thread& thread : threads) thread.join();
  CK(cuCtxSynchronize());
  std::puts("loaded");
  return 0;
}
