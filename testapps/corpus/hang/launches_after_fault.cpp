// A kernel reads a bad address, which ends the context: each launch gives that error. The thread takes it for a launch that may be tried again, and tries for
// ever.
// expect: LG212 culprit=cuStreamSynchronize
// card: yes
// reproducer: none, no call of the program can end the wait
#include "../corpus.hpp"

SCENARIO(launches_after_fault) {
  lg::open_session();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUfunction reads = lg::function(lg::module("faulting"), "reads_bad_address");
  const CUdeviceptr word = lg::device_words(1);
  const CUstream stream = lg::stream();
  for (int i = 0; i < 100; ++i) CK(lg::launch_one(step, stream, word));
  CK(cuStreamSynchronize(stream));
  CK(lg::launch_one(reads, stream, word));
  cuStreamSynchronize(stream);
  while (lg::launch_one(step, stream, word) != CUDA_SUCCESS) std::this_thread::yield();
  std::puts("launched");
  return 0;
}
