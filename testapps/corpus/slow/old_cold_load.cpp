// A cold kernel was loaded while another kernel was in flight; both have long ended, and nobody ever asked. Then a long kernel is
// waited for, which that load has nothing to do with.
// expect: slow
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(old_cold_load) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel busy = lg::kernel(code, "busy_for"), cold = lg::kernel(code, "step");
  CK(lg::launch_one(busy, lg::stream(), lg::pace_ns(0.3)));
  CK(lg::launch_one(cold, lg::stream(), counter.device));
  lg::pass(0.8);
  EXPECT(*counter.host == 1);
  const CUstream later = lg::stream();
  CK(lg::launch_one(busy, later, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(later));
  std::puts("the long kernel is done");
  return 0;
}
