// A kernel is used for the first time in a second context while a kernel of a tenth of a second runs in the first one, and another of its
// streams is in use: a load holds up its own context, and there is nothing in flight there.
// hazard: none
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_kernel_in_another_context) {
  const lg::Session session = lg::open_session();
  const CUlibrary code = lg::library("corpus");
  const CUkernel busy = lg::kernel(code, "busy_for"), step = lg::kernel(code, "step");
  const CUstream first = lg::stream(), second = lg::stream();
  CUcontext other;
  CK(cuCtxCreate(&other, nullptr, 0, session.device));
  const lg::MappedWord counter = lg::mapped_word();
  const CUstream elsewhere = lg::stream();
  CK(cuCtxSetCurrent(session.context));
  CK(lg::launch_one(busy, second, 1ull));
  CK(cuStreamSynchronize(second));
  CK(lg::launch_one(busy, first, lg::ms(100)));
  CK(cuCtxSetCurrent(other));
  CK(lg::launch_one(step, elsewhere, counter.device));
  CK(cuStreamSynchronize(elsewhere));
  EXPECT(*counter.host == 1);
  CK(cuCtxSetCurrent(session.context));
  CK(cuStreamSynchronize(first));
  std::puts("both are done");
  return 0;
}
