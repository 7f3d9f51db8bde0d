// Nobody writes what a stream waits for. A pool of threads sleeps for a while at a time, and another thread launches and waits on a stream
// of its own all the while; both have nothing to do with it.
// expect: LG203 culprit=cuStreamWaitValue32_v2 innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(idle_pool_is_at_large) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream waits = lg::stream(), healthy = lg::stream();
  CK(lg::launch_one(busy, healthy, 1ull));
  CK(cuCtxSynchronize());
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }).detach();
  }
  std::thread([&] {
    cuCtxSetCurrent(session.context);
    for (;;) {
      lg::launch_one(busy, healthy, 1'000'000ull);
      cuStreamSynchronize(healthy);
    }
  }).detach();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamSynchronize(waits));
  std::puts("the value came");
  std::_Exit(0);
}
