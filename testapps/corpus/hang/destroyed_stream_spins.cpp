// The stream of a kernel that never ends is destroyed, which returns at once and ends nothing; then the context is waited for.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(destroyed_stream_spins) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream gone = lg::stream();
  CK(lg::launch_one(spin, gone, never_set.device));
  CK(cuStreamDestroy(gone));
  CK(cuCtxSynchronize());
  std::puts("the kernel ended");
  return 0;
}
