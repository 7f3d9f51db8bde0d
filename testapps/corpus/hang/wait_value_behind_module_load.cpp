// A stream waits for a value. The thread that is going to submit the write first makes the first launch out of a library that is
// not in the context, which waits for the wait; the main thread synchronizes the waiting stream.
// expect: LG202 culprit=cuStreamWaitValue32_v2
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_value_behind_module_load) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUkernel step = lg::kernel(lg::library("corpus_other"), "other_step");
  const CUstream user = lg::stream(), worker = lg::stream();
  CK(cuStreamWaitValue32(user, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  std::thread writes = lg::thread_in(session.context, [&] {
    CK(lg::launch_one(step, worker, words + 4));
    CK(cuStreamWriteValue32(worker, words, 1, 0));
  });
  CK(cuStreamSynchronize(user));
  writes.join();
  CK(cuCtxSynchronize());
  std::puts("the value was written");
  return 0;
}
