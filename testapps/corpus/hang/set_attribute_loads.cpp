// cuKernelSetAttribute of a kernel that is never launched loads it: the barrier of that load stands behind a persistent kernel,
// and a kernel that has run before does not start any more.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(set_attribute_loads) {
  [[maybe_unused]] const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step"), cold = lg::kernel(code, "set_flag");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));

  CK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, cold, session.device));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 2);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("an attribute was set");
  return 0;
}
