// A stream waited for a word to be exactly 1 and saw it; since then others wrote 2 and 3 there. Nobody asked the stream. Then a
// long kernel is waited for.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(overwritten_word_was_seen) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream waits = lg::stream(), writes = lg::stream(), later = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  for (cuuint32_t value = 1; value <= 3; ++value) {
    CK(cuStreamWriteValue32(writes, word, value, 0));
    CK(cuStreamSynchronize(writes));
    lg::pass(0.1);
  }
  CK(lg::launch_one(busy, later, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(later));
  std::puts("the long kernel is done");
  return 0;
}
