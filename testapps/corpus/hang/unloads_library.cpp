// A library whose kernels have all run is unloaded while a persistent kernel of a module runs.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(unloads_library) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  const lg::MappedWord counter = lg::mapped_word();
  const CUlibrary other = lg::library("corpus_other");
  const CUstream work = lg::stream();
  CK(lg::launch_one(lg::kernel(other, "other_step"), work, counter.device));
  CK(cuStreamSynchronize(work));
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuLibraryUnload(other));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
