// For five T, a stream always has a kernel in flight and another behind it. Each poll records a new event behind them and asks about that one, once.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_kernels_by_new_events) {
  lg::open_session();
  const lg::MappedWord done = lg::mapped_word();
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream fed = lg::stream();
  unsigned number = 0;
  const auto submit = [&] { CK(lg::launch_one(publish, fed, done.device, ++number, lg::pace_ns(0.7))); };
  submit();
  submit();
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(5));
  while (std::chrono::steady_clock::now() < until) {
    if (static_cast<unsigned>(*done.host) + 1 >= number) submit();
    const CUevent behind = lg::event();
    CK(cuEventRecord(behind, fed));
    EXPECT(cuEventQuery(behind) == CUDA_ERROR_NOT_READY);
    CK(cuEventDestroy(behind));
    lg::nap(20);
  }
  CK(cuStreamSynchronize(fed));
  std::puts("all kernels ended");
  return 0;
}
