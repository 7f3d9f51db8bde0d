// A stream waits for a value whose writer was submitted: it stands behind a cold kernel on another stream, whose load put a
// barrier behind the very wait.
// expect: LG201 culprit=cuStreamWaitValue32_v2
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_value_behind_load) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUlibrary code = lg::library("corpus");
  const CUstream user = lg::stream(), worker = lg::stream();
  const CUkernel step = lg::kernel(code, "step"), cold = lg::kernel(code, "set_flag");
  CK(lg::launch_one(step, user, words + 4));
  CK(cuStreamSynchronize(user));
  CK(cuStreamWaitValue32(user, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_one(step, user, words + 4));
  CK(lg::launch_one(cold, worker, words + 4));
  CK(cuStreamWriteValue32(worker, words, 1, 0));
  CK(cuStreamSynchronize(user));
  std::puts("the value was written");
  return 0;
}
