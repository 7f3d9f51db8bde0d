// A stream waits for a value that nothing writes. Each poll records a new event behind it and asks about that one, once.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_a_new_event_each_time) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream work = lg::stream();
  CK(cuStreamWaitValue32(work, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  for (CUresult answer = CUDA_ERROR_NOT_READY; answer != CUDA_SUCCESS; lg::nap(20)) {
    const CUevent behind = lg::event();
    CK(cuEventRecord(behind, work));
    answer = cuEventQuery(behind);
    CK(cuEventDestroy(behind));
  }
  std::puts("the value came from nowhere");
  return 0;
}
