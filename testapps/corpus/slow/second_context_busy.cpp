// A thread's work of one and a half T in a second context, and short work all the while in the first.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(second_context_busy) {
  const lg::Session session = lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream short_work = lg::stream();
  CUcontext second;
  CK(cuCtxCreate(&second, nullptr, 0, session.device));
  const CUfunction long_one = lg::function(lg::module("corpus"), "busy_for");
  const CUstream long_work = lg::stream();
  CK(cuCtxSetCurrent(session.context));
  std::atomic<bool> end{false};
  std::thread works = lg::thread_in(second, [&] {
    CK(lg::launch_one(long_one, long_work, lg::pace_ns(1.5)));
    CK(cuCtxSynchronize());
    end = true;
  });
  while (!end) {
    CK(lg::launch_one(busy, short_work, lg::pace_ns(0.1)));
    CK(cuStreamSynchronize(short_work));
  }
  works.join();
  std::puts("both contexts are done");
  return 0;
}
