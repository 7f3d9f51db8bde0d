// A stream waited for a value that a kernel elsewhere wrote; both are long past it, and nobody asked the waiting stream. It is at a long
// kernel behind the wait.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_satisfied_by_finished_kernel) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  const CUfunction publish = lg::function(code, "publish"), busy = lg::function(code, "busy_for");
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(lg::launch_one(busy, waits, 1ull));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_one(busy, waits, lg::pace_ns(1.6)));
  CK(lg::launch_one(publish, writes, word, 1u, 1000ull));
  CK(cuStreamSynchronize(writes));
  CK(cuStreamSynchronize(waits));
  std::puts("done");
  return 0;
}
