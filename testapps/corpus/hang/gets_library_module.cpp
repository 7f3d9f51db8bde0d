// cuLibraryGetModule brings a library into the context while a persistent kernel runs there.
// expect: LG202 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(gets_library_module) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUkernel spin = lg::kernel(lg::library("corpus"), "spin_until");
  const CUlibrary other = lg::library("corpus_other");
  CUmodule module;
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuLibraryGetModule(&module, other));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the library is in the context");
  return 0;
}
