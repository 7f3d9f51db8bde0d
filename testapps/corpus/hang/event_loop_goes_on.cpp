// An event loop asks in each turn whether one job is done, and does short work for others, which goes well. The job stands behind a wait
// that nobody satisfies, and whoever ordered it waits for ever.
// Who does other work between two questions is not taken for waiting: the stream itself shows it.
// expect: LG203 culprit=cuStreamWaitValue32_v2 innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(event_loop_goes_on) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream job = lg::stream(), others = lg::stream();
  CK(lg::launch_one(busy, others, 1ull));
  CK(cuCtxSynchronize());
  const CUevent done = lg::event();
  CK(cuStreamWaitValue32(job, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuEventRecord(done, job));
  while (cuEventQuery(done) == CUDA_ERROR_NOT_READY) {
    CK(lg::launch_one(busy, others, 1'000'000ull));
    CK(cuStreamSynchronize(others));
  }
  std::puts("the job is done");
  return 0;
}
