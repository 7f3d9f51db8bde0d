// A stream always has the wait for the next request, and is never idle for five T. Kernels on another stream write the values, events are recorded behind
// each wait, and no thread asks the driver whether anything has ended.
// expect: none
// card: yes
#include "../corpus.hpp"

SCENARIO(next_wait_is_always_there) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream waits = lg::stream(), writes = lg::stream();
  const CUevent behind = lg::event();
  CK(lg::launch_one(publish, writes, word, 0u, 1ull));
  CK(cuStreamSynchronize(writes));
  unsigned number = 0;
  const auto arm = [&] {
    CK(cuStreamWaitValue32(waits, word, ++number, CU_STREAM_WAIT_VALUE_GEQ));
    CK(cuEventRecord(behind, waits));
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(5));
  for (arm(); std::chrono::steady_clock::now() < until; lg::nap(50)) {
    arm();
    CK(lg::launch_one(publish, writes, word, number - 1, 1ull));
  }
  CK(lg::launch_one(publish, writes, word, number, 1ull));
  CK(cuCtxSynchronize());
  std::puts("served");
  return 0;
}
