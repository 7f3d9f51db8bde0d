// An event behind a persistent kernel is destroyed, and a new one, perhaps under the same handle, is waited for by a stream before
// anybody records it, which is no wait at all. Then that stream has a long kernel to do.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(event_not_recorded_under_an_old_handle) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream waits = lg::stream(), works = lg::stream();
  CK(lg::launch_one(busy, works, 1ull));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  for (int i = 0; i < 64; ++i) {
    const CUevent old = lg::event();
    CK(cuEventRecord(old, waits));
    CK(cuEventDestroy(old));
    const CUevent fresh = lg::event();
    CK(cuStreamWaitEvent(works, fresh, 0));
    if (fresh == old) break;
  }
  CK(lg::launch_one(busy, works, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(works));
  CK(cuStreamWriteValue32(works, word, 1, 0));
  CK(cuCtxSynchronize());
  std::puts("done");
  return 0;
}
