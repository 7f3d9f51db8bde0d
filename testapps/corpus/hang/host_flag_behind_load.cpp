// No thread is in the driver at all: the program spins on a word of host memory that a cold kernel was launched to set. The
// kernel stands behind the barrier of its load, and the persistent kernel in front of it is ended by this thread alone,
// afterwards.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(host_flag_behind_load) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), ready = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));
  CK(lg::launch_one(lg::kernel(code, "set_flag"), work, ready.device));
  while (*ready.host == 0) std::this_thread::yield();
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the flag was set");
  return 0;
}
