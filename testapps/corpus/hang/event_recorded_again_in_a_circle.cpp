// Rounds of a producer and a consumer, which share an event and a counter. The first round goes on. In the second one the producer's stream waits
// for the value that the consumer's stream writes behind its wait for the event, and the event is recorded again behind the producer's wait.
// expect: LG203 culprit=cuStreamWaitEvent innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(event_recorded_again_in_a_circle) {
  lg::open_session();
  const CUdeviceptr count = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream produces = lg::stream(), consumes = lg::stream();
  const CUevent produced = lg::event();
  for (unsigned round = 1; round <= 2; ++round) {
    // The number of this round, in place of the one before.
    if (round > 1) CK(cuStreamWaitValue32(produces, count, round, CU_STREAM_WAIT_VALUE_GEQ));
    CK(lg::launch_one(busy, produces, lg::ms(1)));
    CK(cuEventRecord(produced, produces));
    CK(cuStreamWaitEvent(consumes, produced, 0));
    CK(lg::launch_one(busy, consumes, lg::ms(1)));
    CK(cuStreamWriteValue32(consumes, count, round, 0));
  }
  CK(cuCtxSynchronize());
  std::puts("two rounds");
  return 0;
}
