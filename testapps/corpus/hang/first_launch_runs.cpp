// The first kernel of the whole context is launched while a stream waits for a value, and it starts, for no module of the context has a
// kernel that prints. It waits for what nobody publishes, and the write that the stream waits for stands behind it.
// expect: LG299 culprit=consume
// card: yes
#include "../corpus.hpp"

SCENARIO(first_launch_runs) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction consume = lg::function(lg::module("corpus"), "consume");
  const CUstream waits = lg::stream(), works = lg::stream();
  CK(cuStreamWaitValue32(waits, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(consume, works, words + 4, 1u));
  CK(cuStreamWriteValue32(works, words, 1, 0));
  CK(cuStreamSynchronize(waits));
  std::puts("the value was written");
  return 0;
}
