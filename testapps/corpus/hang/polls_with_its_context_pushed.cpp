// A library asks without end whether a stream is done, each time with its context pushed before and popped after. The stream waits for
// a value that nobody writes.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_with_its_context_pushed) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  for (CUresult done = CUDA_ERROR_NOT_READY; done == CUDA_ERROR_NOT_READY;) {
    CUcontext popped;
    CK(cuCtxPushCurrent(session.context));
    done = cuStreamQuery(waits);
    CK(cuCtxPopCurrent(&popped));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  std::puts("the value came");
  return 0;
}
