// No thread is blocked in the driver: the program asks three events in turn whether they are complete. One is, the other two
// stand behind a wait that nobody satisfies.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_events_in_turn) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream waits = lg::stream(), follows = lg::stream(), ends = lg::stream();
  const CUevent events[] = {lg::event(), lg::event(), lg::event()};
  CK(lg::launch_one(step, waits, words + 4));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(waits, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuEventRecord(events[0], waits));
  CK(cuStreamWaitEvent(follows, events[0], 0));
  CK(lg::launch_one(step, follows, words + 4));
  CK(cuEventRecord(events[1], follows));
  CK(lg::launch_one(step, ends, words + 4));
  CK(cuEventRecord(events[2], ends));
  for (bool all = false; !all;) {
    all = true;
    for (const CUevent event : events) all &= cuEventQuery(event) == CUDA_SUCCESS;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  std::puts("all three are complete");
  return 0;
}
