// cuKernelGetParamInfo of a kernel whose library was not used yet brings that library into the context while a persistent kernel runs there.
// expect: LG202 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(asks_for_parameters) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUkernel spin = lg::kernel(lg::library("corpus"), "spin_until");
  const CUkernel step = lg::kernel(lg::library("corpus_other"), "other_step");
  size_t offset, bytes;
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuKernelGetParamInfo(step, 0, &offset, &bytes));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::printf("the first parameter has %zu bytes\n", bytes);
  return 0;
}
