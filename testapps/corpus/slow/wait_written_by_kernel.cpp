// A stream waits for a value that a kernel on another stream writes as the last thing it does, after one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_by_kernel) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(lg::launch_one(publish, writes, word, 0u, 0ull));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(publish, writes, word, 1u, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(waits));
  std::puts("published");
  return 0;
}
