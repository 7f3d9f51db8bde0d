// Two streams hand a turn to each other by values in memory of the host, and a thread sleeps for one and a half T before it stores the first.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(ring_started_by_the_host) {
  lg::open_session();
  const lg::MappedWord first = lg::mapped_word(), second = lg::mapped_word();
  const CUstream one = lg::stream(), other = lg::stream();
  CK(cuStreamWaitValue32(one, first.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamWriteValue32(one, second.device, 1, 0));
  CK(cuStreamWaitValue32(other, second.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamWriteValue32(other, first.device, 2, 0));
  std::thread starts([&] {
    lg::pass(1.5);
    *first.host = 1;
  });
  CK(cuStreamSynchronize(other));
  starts.join();
  std::puts("the turn has come round");
  return 0;
}
