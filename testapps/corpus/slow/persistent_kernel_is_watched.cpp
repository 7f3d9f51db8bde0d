// A server with a persistent kernel: a thread asks every millisecond whether the kernel is still there, which is as it should be, and
// the main thread serves requests on a stream of its own for five T.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(persistent_kernel_is_watched) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(spin, persistent, stop.device));
  std::atomic<bool> end{false};
  std::thread watch = lg::thread_in(session.context, [&] {
    while (!end) {
      EXPECT(cuStreamQuery(persistent) == CUDA_ERROR_NOT_READY);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(5));
  while (std::chrono::steady_clock::now() < until) {
    CK(lg::launch_one(busy, work, lg::pace_ns(0.05)));
    CK(cuStreamSynchronize(work));
  }
  end = true;
  watch.join();
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("served");
  return 0;
}
