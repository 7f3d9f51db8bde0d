// A stream waits for 1 and then for 2. Another has written 1, and writes 2 behind a host function of one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(next_value_behind_a_host_function) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), writes = lg::stream();
  for (unsigned value : {1u, 2u}) CK(cuStreamWaitValue32(waits, word, value, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue32(writes, word, 1, 0));
  CK(cuLaunchHostFunc(writes, [](void*) { lg::pass(1.5); }, nullptr));
  CK(cuStreamWriteValue32(writes, word, 2, 0));
  CK(cuStreamSynchronize(waits));
  std::puts("both values have come");
  return 0;
}
