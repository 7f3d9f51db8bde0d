// The comparison goes in a circle: a value more than half the circle ahead counts as behind. A counter runs to where it seems greater than
// what is waited for, and is not.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(compared_in_a_circle) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), counts = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 5, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamWriteValue32(counts, word, 0x80000010u, 0));
  CK(cuStreamSynchronize(counts));
  CK(cuStreamSynchronize(waits));
  std::puts("reached");
  return 0;
}
