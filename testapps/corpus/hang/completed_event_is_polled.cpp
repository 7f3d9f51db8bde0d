// A stream waits for a value that nobody writes, and the host for the stream. Another thread asks all the time about an event on that
// stream that is long complete: that tells nothing new.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(completed_event_is_polled) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream waits = lg::stream();
  const CUevent early = lg::event();
  CK(lg::launch_one(busy, waits, 1ull));
  CK(cuEventRecord(early, waits));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  std::thread([&] {
    cuCtxSetCurrent(session.context);
    for (;;) {
      cuEventQuery(early);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }).detach();
  CK(cuStreamSynchronize(waits));
  std::puts("the value came");
  std::_Exit(0);
}
