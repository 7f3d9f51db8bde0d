// Two causes: the host waits for a stream behind a host function that no thread lets return, and another stream waits for a value that nothing writes.
// No thread waits for that one.
// expect: LG207 culprit=cuLaunchHostFunc
// card: yes
#include "../corpus.hpp"

SCENARIO(two_streams_stand) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream work = lg::stream(), waits = lg::stream();
  lg::Gate gate;
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuLaunchHostFunc(work, [](void* gate) { lg::wait_at(*static_cast<lg::Gate*>(gate)); }, &gate));
  CK(cuStreamSynchronize(work));
  std::puts("the host function returned");
  return 0;
}
