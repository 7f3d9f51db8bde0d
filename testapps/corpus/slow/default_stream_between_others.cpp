// A long kernel on a blocking stream, one on the default stream, another on the blocking stream: they run in their order, because
// the default stream makes it so. The host waits for the last.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(default_stream_between_others) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream blocking = lg::stream(CU_STREAM_DEFAULT);
  CK(lg::launch_one(busy, blocking, 1ull));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(busy, blocking, lg::pace_ns(1.5)));
  CK(lg::launch_one(busy, nullptr, 1000ull));
  CK(lg::launch_one(busy, blocking, 1000ull));
  CK(cuStreamSynchronize(blocking));
  std::puts("one after the other");
  return 0;
}
