// A whole context is made to wait for an event behind a wait that nobody satisfies; what is submitted afterwards to any stream waits too.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(context_waits_for_event) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream waits = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, words + 4));
  CK(cuCtxSynchronize());
  const CUevent event = lg::event();
  CK(cuStreamWaitValue32(waits, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuEventRecord(event, waits));
  CK(cuCtxWaitEvent(session.context, event));
  CK(lg::launch_one(step, work, words + 4));
  CK(cuStreamSynchronize(work));
  std::puts("the value came");
  return 0;
}
