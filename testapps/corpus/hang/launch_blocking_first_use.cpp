// CUDA_LAUNCH_BLOCKING=1 makes each launch return when its kernel has ended. The kernel is launched for the first time, so that the launch might compile; it
// waits for a word that the same thread would store right after the launch, and its thread looks for its end again and again.
// expect: LG299 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: LG299
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_blocking_first_use) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUkernel spin = lg::kernel(lg::library("corpus"), "spin_until");
  const CUstream only = lg::stream();
  CK(lg::launch_one(spin, only, word.device));
  *word.host = 1;
  CK(cuStreamSynchronize(only));
  std::puts("the launch returned");
  return 0;
}
