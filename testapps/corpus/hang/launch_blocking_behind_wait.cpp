// With CUDA_LAUNCH_BLOCKING=1 a launch stands behind a wait for a value on its stream, which the same thread would write on another stream
// right after.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_blocking_behind_wait) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(lg::launch_one(busy, waits, lg::ms(1)));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_one(busy, waits, lg::ms(1)));
  CK(cuStreamWriteValue32(writes, word, 1, 0));
  CK(cuCtxSynchronize());
  std::puts("the launch returned");
  return 0;
}
