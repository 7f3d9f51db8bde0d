// A thread looks every millisecond whether a stream is idle, and it never is: another thread feeds it short kernels for five T, and
// sees by words of host memory, never by the driver, that they end.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(watched_stream_is_fed) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord done = lg::mapped_word();
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream fed = lg::stream();
  CK(lg::launch_one(publish, fed, done.device, 0u, 1ull));
  CK(cuStreamSynchronize(fed));
  std::atomic<bool> end{false};
  unsigned number = 0;
  const auto submit = [&] { CK(lg::launch_one(publish, fed, done.device, ++number, lg::pace_ns(0.02))); };
  for (int i = 0; i < 4; ++i) submit();
  std::thread watch = lg::thread_in(session.context, [&] {
    while (!end) {
      cuStreamQuery(fed);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(5));
  while (std::chrono::steady_clock::now() < until) {
    while (static_cast<unsigned>(*done.host) + 4 <= number) std::this_thread::sleep_for(std::chrono::microseconds(200));
    submit();
  }
  end = true;
  watch.join();
  CK(cuStreamSynchronize(fed));
  std::puts("fed");
  return 0;
}
