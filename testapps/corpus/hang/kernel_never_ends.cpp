// A kernel never ends, and the host waits for its stream. Nothing else is in play.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(kernel_never_ends) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  CK(lg::launch_one(spin, only, never_set.device));
  CK(cuStreamSynchronize(only));
  std::puts("the kernel ended");
  return 0;
}
