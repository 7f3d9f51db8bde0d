// A kernel reads a bad address, which ends the context: each synchronization gives that error, and the thread, which tries again until one succeeds, tries for
// ever.
// expect: LG212 culprit=cuStreamSynchronize
// card: yes
// reproducer: none, no call of the program can end the wait
#include "../corpus.hpp"

SCENARIO(synchronizes_after_fault) {
  lg::open_session();
  const CUfunction reads = lg::function(lg::module("faulting"), "reads_bad_address");
  const CUdeviceptr word = lg::device_words(1);
  const CUstream stream = lg::stream();
  CK(lg::launch_one(reads, stream, word));
  while (cuStreamSynchronize(stream) != CUDA_SUCCESS) lg::nap(1);
  std::puts("synchronized");
  return 0;
}
