// A kernel was loaded on first use beside a short kernel on a stream that was destroyed at once; both are long done, and nobody asked. Then
// a kernel of one and a half T is waited for.
// expect: slow
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(cold_load_beside_a_destroyed_stream) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel busy = lg::kernel(code, "busy_for"), cold = lg::kernel(code, "step");
  const CUstream passing = lg::stream(), work = lg::stream();
  CK(lg::launch_one(busy, passing, lg::pace_ns(0.2)));
  CK(cuStreamDestroy(passing));
  CK(lg::launch_one(cold, work, counter.device));
  lg::pass(0.6);
  EXPECT(*counter.host == 1);
  CK(lg::launch_one(busy, work, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(work));
  std::puts("done");
  return 0;
}
