// A stream waits for a value that a fill on another stream writes, behind a kernel of one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_by_memset) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(lg::launch_one(busy, writes, 1ull));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(busy, writes, lg::pace_ns(1.5)));
  CK(cuMemsetD32Async(word, 1, 1, writes));
  CK(cuStreamSynchronize(waits));
  std::puts("the fill came");
  return 0;
}
