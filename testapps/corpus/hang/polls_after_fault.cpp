// A kernel reads a bad address, which ends the context: each query gives that error, and the thread, which waits for success, asks for ever.
// expect: LG212 culprit=cuEventQuery
// card: yes
// reproducer: none, no call of the program can end the wait
#include "../corpus.hpp"

SCENARIO(polls_after_fault) {
  lg::open_session();
  const CUfunction reads = lg::function(lg::module("faulting"), "reads_bad_address");
  const CUdeviceptr word = lg::device_words(1);
  const CUstream stream = lg::stream();
  const CUevent done = lg::event();
  CK(lg::launch_one(reads, stream, word));
  cuEventRecord(done, stream);
  while (cuEventQuery(done) != CUDA_SUCCESS) std::this_thread::yield();
  std::puts("event");
  return 0;
}
