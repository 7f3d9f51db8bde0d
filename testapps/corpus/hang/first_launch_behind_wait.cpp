// The first kernel of the whole context is launched while a stream waits for a value. All functions were loaded before, but one of the
// context's modules has a kernel that prints, and then the context's first launch, of whatever, puts a barrier behind all that is in
// flight, as the load of a function does: the write that was submitted after it is never carried out.
// expect: LG201 culprit=cuStreamWaitValue32_v2
// reproducer: none, its barrier is that of a kernel that prints
// card: yes
#include "../corpus.hpp"

SCENARIO(first_launch_behind_wait) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  lg::module("corpus_prints");
  const CUstream waits = lg::stream(), works = lg::stream(), writes = lg::stream();
  CK(cuStreamWaitValue32(waits, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(step, works, words + 4));
  CK(cuStreamWriteValue32(writes, words, 1, 0));
  CK(cuStreamSynchronize(waits));
  std::puts("the value was written");
  return 0;
}
