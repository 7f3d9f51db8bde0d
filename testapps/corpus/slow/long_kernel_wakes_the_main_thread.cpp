// The main thread waits for a condition variable that a host function behind a long kernel signals, as in a framework's run-time system, and
// no thread is in a call.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(long_kernel_wakes_the_main_thread) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuStreamSynchronize(work));
  static lg::Gate ended;
  CK(lg::launch_one(busy, work, lg::pace_ns(5)));
  const auto opens = [](void*) {
    const std::lock_guard<std::mutex> hold(ended.mutex);
    ended.open = true;
    ended.opened.notify_all();
  };
  CK(cuLaunchHostFunc(work, opens, nullptr));
  lg::wait_at(ended);
  std::puts("woken");
  return 0;
}
