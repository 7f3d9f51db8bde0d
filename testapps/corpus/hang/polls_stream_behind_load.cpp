// No thread is blocked in the driver: the program polls cuStreamQuery of a stream whose first kernel was cold and stands behind
// the barrier of its own load, which stands behind a persistent kernel.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_stream_behind_load) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));
  CK(lg::launch_one(lg::kernel(code, "step"), work, counter.device));
  while (cuStreamQuery(work) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the poll ended");
  return 0;
}
