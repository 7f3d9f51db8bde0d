// A thread copies data in a loop while the main thread makes the first launch out of another translation unit, whose library is
// not in the context, beside a persistent kernel. The launch waits for the persistent kernel to load the module, and the copies
// wait for the launch.
// expect: LG202 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_library_while_copying) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUkernel spin = lg::kernel(lg::library("corpus"), "spin_until");
  const CUkernel step = lg::kernel(lg::library("corpus_other"), "other_step");
  const CUstream persistent = lg::stream(), work = lg::stream();
  lg::Copier copier(session.context);
  CK(lg::launch_one(spin, persistent, stop.device));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  copier.join();
  CK(cuCtxSynchronize());
  std::puts("a step of another library beside copies");
  return 0;
}
