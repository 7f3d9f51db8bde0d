// A stream waits for a value that another host thread, asleep until then, has written after one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_late) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  std::thread late = lg::thread_in(session.context, [&] {
    lg::pass(1.5);
    CK(cuStreamWriteValue32(writes, word, 1, 0));
  });
  CK(cuStreamSynchronize(waits));
  late.join();
  std::puts("the value came late");
  return 0;
}
