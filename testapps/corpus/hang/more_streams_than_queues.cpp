// Sixty-four streams share the eight hardware queues that there are without CUDA_DEVICE_MAX_CONNECTIONS. A kernel waits at the head of one queue for an event
// behind a persistent kernel. The thread waits for a short kernel on each other stream before it ends the persistent one, and some of them are in that queue.
// expect: LG211 culprit=spin_until innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(more_streams_than_queues) {
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream first = lg::stream(), behind = lg::stream();
  const CUevent ended = lg::event();
  std::vector<CUstream> others;
  for (int i = 0; i < 62; ++i) others.push_back(lg::stream());
  CK(lg::launch_one(spin, first, stop.device));
  CK(cuEventRecord(ended, first));
  CK(cuStreamWaitEvent(behind, ended, 0));
  CK(lg::launch_one(busy, behind, lg::ms(1)));
  // So long that no queue is idle before the last launch: a stream that begins to be busy would take that one.
  for (const CUstream other : others) CK(lg::launch_one(busy, other, lg::ms(20)));
  for (const CUstream other : others) CK(cuStreamSynchronize(other));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("every stream had its turn");
  return 0;
}
