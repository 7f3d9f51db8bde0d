// Twenty-four streams share the eight hardware queues that there are without CUDA_DEVICE_MAX_CONNECTIONS. At the head of each queue a kernel waits for an
// event behind a persistent kernel. The thread waits for a short kernel on each other stream before it ends the persistent one.
// expect: LG211 culprit=spin_until innocent=busy_for
// card: yes
#include "../corpus.hpp"

SCENARIO(more_streams_than_queues) {
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream first = lg::stream();
  const CUevent ended = lg::event();
  std::vector<CUstream> behind, others;
  for (int i = 0; i < 8; ++i) behind.push_back(lg::stream());
  for (int i = 0; i < 15; ++i) others.push_back(lg::stream());
  CK(lg::launch_one(spin, first, stop.device));
  CK(cuEventRecord(ended, first));
  // A stream that begins to be busy takes a queue that is not, while there is one.
  for (const CUstream stream : behind) {
    CK(cuStreamWaitEvent(stream, ended, 0));
    CK(lg::launch_one(busy, stream, lg::ms(1)));
  }
  for (const CUstream other : others) CK(lg::launch_one(busy, other, lg::ms(1)));
  for (const CUstream other : others) CK(cuStreamSynchronize(other));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("every stream had its turn");
  return 0;
}
