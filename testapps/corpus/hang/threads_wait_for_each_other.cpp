// Two threads, a stream each: each synchronizes its stream before it submits the write that the other's stream waits for. Two
// more threads have work of their own, which goes on.
// expect: LG203 culprit=cuStreamWaitValue32_v2 innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(threads_wait_for_each_other) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  std::vector<std::thread> threads;
  std::atomic<bool> end{false};
  for (int i = 0; i < 2; ++i) {
    threads.push_back(lg::thread_in(session.context, [&, stream = lg::stream()] {
      while (!end) {
        CK(lg::launch_one(busy, stream, 5'000'000ull));
        CK(cuStreamSynchronize(stream));
      }
    }));
  }
  CK(lg::launch_one(busy, lg::stream(), 1ull));
  CK(cuCtxSynchronize());
  const CUstream streams[] = {lg::stream(), lg::stream()};
  const auto handshake = [&](int own) {
    CK(cuStreamWaitValue32(streams[own], words + 4 * own, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CK(cuStreamSynchronize(streams[own]));
    CK(cuStreamWriteValue32(streams[own], words + 4 * (1 - own), 1, 0));
  };
  std::thread other = lg::thread_in(session.context, [&] { handshake(1); });
  handshake(0);
  other.join();
  end = true;
  for (std::thread& thread : threads) thread.join();
  std::puts("they met");
  return 0;
}
