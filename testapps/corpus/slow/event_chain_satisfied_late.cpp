// A chain over three streams by events ends in a wait for a value, which another thread has written after one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(event_chain_satisfied_late) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream first = lg::stream(), second = lg::stream(), third = lg::stream(), writes = lg::stream();
  const CUevent of_first = lg::event(), of_second = lg::event();
  CK(lg::launch_one(step, first, words + 4));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(first, words, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuEventRecord(of_first, first));
  CK(cuStreamWaitEvent(second, of_first, 0));
  CK(lg::launch_one(step, second, words + 4));
  CK(cuEventRecord(of_second, second));
  CK(cuStreamWaitEvent(third, of_second, 0));
  std::thread late = lg::thread_in(session.context, [&] {
    lg::pass(1.5);
    CK(cuStreamWriteValue32(writes, words, 1, 0));
  });
  CK(cuStreamSynchronize(third));
  late.join();
  std::puts("the chain went through");
  return 0;
}
