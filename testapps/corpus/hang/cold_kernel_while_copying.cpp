// A thread copies data in a loop while the main thread launches a kernel for the first time beside a persistent one. The launch
// returns, and then neither the copies nor the kernel start any more: both threads wait for what the load's barrier holds back.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_kernel_while_copying) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step");
  const CUstream persistent = lg::stream(), work = lg::stream();
  lg::Copier copier(session.context);
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  copier.join();
  CK(cuCtxSynchronize());
  std::puts("a step beside copies");
  return 0;
}
