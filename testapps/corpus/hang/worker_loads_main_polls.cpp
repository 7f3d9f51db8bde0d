// A worker is blocked loading a module into the context of a persistent kernel; the main thread polls the stream of the
// persistent kernel, which the worker would end after its load.
// expect: LG202 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(worker_loads_main_polls) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream persistent = lg::stream();
  CK(lg::launch_one(spin, persistent, stop.device));
  std::thread worker = lg::thread_in(session.context, [&] {
    lg::module("corpus_other");
    *stop.host = 1;
  });
  while (cuStreamQuery(persistent) == CUDA_ERROR_NOT_READY) std::this_thread::sleep_for(std::chrono::microseconds(500));
  worker.join();
  std::puts("the poll ended");
  return 0;
}
