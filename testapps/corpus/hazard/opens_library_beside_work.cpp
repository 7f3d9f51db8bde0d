// A library is opened and its kernel looked up while a kernel runs, neither of which brings anything into the context. It is used when
// nothing is in flight any more.
// hazard: none
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(opens_library_beside_work) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream first = lg::stream(), second = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "busy_for"), first, lg::ms(100)));
  const CUkernel other = lg::kernel(lg::library("corpus_other"), "other_step");
  CK(cuStreamSynchronize(first));
  CK(lg::launch_one(other, second, counter.device));
  CK(cuStreamSynchronize(second));
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
