// A kernel reads a bad address, which ends the context. The program sees the error a few times, of synchronizations and launches, works on the host for three
// T and ends.
// expect: none
// card: yes
#include "../corpus.hpp"

SCENARIO(ends_after_fault) {
  lg::open_session();
  const CUfunction reads = lg::function(lg::module("faulting"), "reads_bad_address");
  const CUdeviceptr word = lg::device_words(1);
  const CUstream stream = lg::stream();
  CK(lg::launch_one(reads, stream, word));
  int errors = 0;
  for (int i = 0; i < 5; ++i) {
    errors += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    errors += lg::launch_one(reads, stream, word) != CUDA_SUCCESS;
  }
  lg::pass(3);
  std::printf("%d errors\n", errors);
  return 0;
}
