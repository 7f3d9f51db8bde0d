// A stream waits for a value that another stream is told to write only afterwards. Submitted by two threads, or with anything in between
// that blocks, the write might never come.
// hazard: LG103 call=cuStreamWaitValue32 kernel=- stream=non-blocking
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_before_its_write) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue32(writes, word, 1, 0));
  CK(cuStreamSynchronize(waits));
  std::puts("the value came");
  return 0;
}
