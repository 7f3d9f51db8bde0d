// A kernel never ends in one context, where a thread waits. In a second context another thread's work comes and goes all the
// time.
// expect: LG299 culprit=spin_until innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(second_context_is_innocent) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream persistent = lg::stream();
  CUcontext second;
  CK(cuCtxCreate(&second, nullptr, 0, session.device));
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream healthy = lg::stream();
  CK(cuCtxSetCurrent(session.context));
  std::atomic<int> rounds{0};
  std::thread works = lg::thread_in(second, [&] {
    for (;; ++rounds) {
      CK(lg::launch_one(busy, healthy, 20'000'000ull));
      CK(cuStreamSynchronize(healthy));
    }
  });
  while (rounds < 3) std::this_thread::yield();
  CK(lg::launch_one(spin, persistent, never_set.device));
  CK(cuCtxSynchronize());
  std::puts("the kernel ended");
  std::_Exit(0);
}
