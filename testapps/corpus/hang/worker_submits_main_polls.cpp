// The main thread polls a stream in a tight loop. A worker submits a wait to that stream, for a value that nobody writes. The driver may answer a query
// of that moment for the time before the wait.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(worker_submits_main_polls) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream polled = lg::stream();
  std::atomic<bool> submitted{false};
  std::thread worker = lg::thread_in(session.context, [&] {
    lg::head_start();
    CK(cuStreamWaitValue32(polled, word, 7, CU_STREAM_WAIT_VALUE_EQ));
    submitted = true;
  });
  // Whether it was submitted is asked first: a query that is answered before the wait says nothing of it.
  for (bool was_submitted = false; cuStreamQuery(polled) == CUDA_ERROR_NOT_READY || !was_submitted;) was_submitted = submitted;
  worker.join();
  std::puts("the poll ended");
  return 0;
}
