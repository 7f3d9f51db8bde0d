// A kernel is loaded on first use beside a kernel of two and a half T, and waited for. Both end.
// It is called a hang after the threshold: nobody outside knows that the kernel ends by itself.
// expect: slow
// told: LG201
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_kernel_beside_long_kernel) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream work = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "busy_for"), lg::stream(), lg::pace_ns(2.5)));
  CK(lg::launch_one(lg::kernel(code, "step"), work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
