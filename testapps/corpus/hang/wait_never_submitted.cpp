// A stream waits for a value that the program forgot to have written; the host waits for an event recorded behind it.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_never_submitted) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream();
  const CUevent behind = lg::event();
  CK(cuStreamWaitValue32(waits, word, 7, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuEventRecord(behind, waits));
  CK(cuEventSynchronize(behind));
  std::puts("the value came from nowhere");
  return 0;
}
