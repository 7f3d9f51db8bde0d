// Two streams hand a turn to and fro by values: each waits for the other's earlier write. The first has a long kernel to do before
// it serves. Nothing waits for itself.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(value_ping_pong) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream one = lg::stream(), two = lg::stream();
  CK(lg::launch_one(busy, two, 1ull));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(busy, one, lg::pace_ns(1.5)));
  for (cuuint32_t turn = 1; turn <= 3; ++turn) {
    CK(cuStreamWriteValue32(one, words, turn, 0));
    CK(cuStreamWaitValue32(two, words, turn, CU_STREAM_WAIT_VALUE_GEQ));
    CK(cuStreamWriteValue32(two, words + 4, turn, 0));
    CK(cuStreamWaitValue32(one, words + 4, turn, CU_STREAM_WAIT_VALUE_GEQ));
  }
  CK(cuStreamSynchronize(one));
  std::puts("three turns");
  return 0;
}
