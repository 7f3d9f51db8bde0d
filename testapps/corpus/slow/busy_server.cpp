// Three threads serve requests for three T, each on a stream of its own: copies, kernels, a synchronize. No wait is long, and the
// server never rests.
// expect: none
// card: yes
#include "../corpus.hpp"

SCENARIO(busy_server) {
  const lg::Session session = lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.push_back(lg::thread_in(session.context, [&, stream = lg::stream(), word = lg::device_words(1)] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(3));
      int host = 0, served = 0;
      while (std::chrono::steady_clock::now() < until) {
        CK(cuMemcpyHtoDAsync(word, &served, sizeof served, stream));
        CK(lg::launch_one(busy, stream, lg::pace_ns(0.02)));
        CK(lg::launch_one(step, stream, word));
        CK(cuMemcpyDtoHAsync(&host, word, sizeof host, stream));
        CK(cuStreamSynchronize(stream));
        EXPECT(host == ++served);
      }
    }));
  }
  for (std::thread& thread : threads) thread.join();
  std::puts("served");
  return 0;
}
