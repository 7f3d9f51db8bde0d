// Seven hundred handshakes by values are done, and nobody asked. The next value is never written.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(one_wait_of_many) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), writes = lg::stream();
  for (cuuint32_t turn = 1; turn <= 700; ++turn) {
    CK(cuStreamWriteValue32(writes, word, turn, 0));
    CK(cuStreamWaitValue32(waits, word, turn, CU_STREAM_WAIT_VALUE_GEQ));
  }
  CK(cuStreamSynchronize(writes));
  CK(cuStreamWaitValue32(waits, word, 701, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamSynchronize(waits));
  std::puts("turn 701 came");
  return 0;
}
