// A stream waits for a value that no operation writes, and no thread waits for the stream. The main thread looks at memory of the host that
// comes behind it; another one asks about an idle stream all the time, and is answered.
// expect: LG203 culprit=cuStreamWaitValue32_v2 innocent=step
// card: yes
#include "../corpus.hpp"

SCENARIO(unwritten_value_beside_a_poll) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream waits = lg::stream(), idle = lg::stream();
  CK(lg::launch_one(step, waits, counter.device));
  CK(cuCtxSynchronize());
  std::thread([&] {
    cuCtxSetCurrent(session.context);
    for (;; lg::nap(5)) cuStreamQuery(idle);
  }).detach();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_one(step, waits, counter.device));
  while (*static_cast<volatile int*>(counter.host) < 2) lg::nap(2);
  std::puts("the value came");
  std::_Exit(0);
}
