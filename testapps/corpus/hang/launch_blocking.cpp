// CUDA_LAUNCH_BLOCKING=1 makes each launch return when its kernel has ended. The kernel waits for a word that the same thread would store
// right after the launch: everything is loaded, the stream was idle, and nothing else is in flight.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_blocking) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  *word.host = 1;
  CK(lg::launch_one(spin, only, word.device));
  CK(cuStreamSynchronize(only));
  *word.host = 0;
  CK(lg::launch_one(spin, only, word.device));
  *word.host = 1;
  CK(cuStreamSynchronize(only));
  std::puts("the launch returned");
  return 0;
}
