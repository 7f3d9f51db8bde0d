// A stream waits for a value that the program writes once it has submitted a whole batch of launches to that stream, and the
// batch is larger than the queue: the write is never reached.
// expect: LG205 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(queue_full_behind_wait) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream batch = lg::stream(), gate = lg::stream();
  CK(lg::launch_one(step, batch, counter.device));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(batch, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  for (int i = 0; i < 5000; ++i) CK(lg::launch_one(step, batch, counter.device));
  CK(cuStreamWriteValue32(gate, word, 1, 0));
  CK(cuStreamSynchronize(batch));
  std::puts("5000 steps");
  return 0;
}
