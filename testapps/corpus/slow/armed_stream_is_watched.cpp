// A server has armed a stream: it waits for a word of mapped memory. A thread asks every millisecond whether a request has come, and the main
// thread serves others on a stream of its own for five T.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(armed_stream_is_watched) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord doorbell = lg::mapped_word();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream armed = lg::stream(), work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(armed, doorbell.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  std::atomic<bool> end{false};
  std::thread watch = lg::thread_in(session.context, [&] {
    while (!end) {
      EXPECT(cuStreamQuery(armed) == CUDA_ERROR_NOT_READY);
      lg::nap(1);
    }
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(5));
  while (std::chrono::steady_clock::now() < until) {
    CK(lg::launch_one(busy, work, lg::pace_ns(0.05)));
    CK(cuStreamSynchronize(work));
  }
  end = true;
  watch.join();
  *doorbell.host = 1;
  CK(cuStreamSynchronize(armed));
  std::puts("served");
  return 0;
}
