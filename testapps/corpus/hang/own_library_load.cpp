// A library is loaded with cuLibraryLoadData while a persistent kernel runs, which returns; its kernel is launched, which does not: the library comes
// into the context with it.
// expect: LG202 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(own_library_load) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream work = lg::stream();
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(lg::launch_one(lg::kernel(lg::library("corpus_other"), "other_step"), work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::printf("the kernel of the library has counted to %d\n", *counter.host);
  return 0;
}
