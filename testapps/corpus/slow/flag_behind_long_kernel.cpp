// The main thread naps until a host function behind a long kernel has set a flag, and no thread is in a call.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(flag_behind_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuStreamSynchronize(work));
  std::atomic<bool> ended{false};
  CK(lg::launch_one(busy, work, lg::pace_ns(5)));
  CK(cuLaunchHostFunc(work, [](void* ended) { static_cast<std::atomic<bool>*>(ended)->store(true); }, &ended));
  while (!ended) lg::nap(5);
  std::puts("set");
  return 0;
}
