// The first kernel that prints is launched beside a persistent kernel. It was loaded before, and the launch returns, but the first of a
// context puts a barrier behind all that is in flight: neither it nor a kernel that has run before starts any more.
// expect: LG201 culprit=spin_until
// reproducer: none, its barrier is that of a kernel that prints
// card: yes
#include "../corpus.hpp"

SCENARIO(first_printf) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  const CUfunction prints = lg::function(lg::module("corpus_prints"), "prints");
  const CUstream persistent = lg::stream(), printing = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  CK(lg::launch_one(spin, persistent, stop.device));
  CK(lg::launch_one(prints, printing, counter.device));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("a step beside the first print");
  return 0;
}
