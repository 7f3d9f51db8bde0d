// A kernel never ends. Each poll records a new event behind it and asks about that one, once.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_a_kernel_by_new_events) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  CK(lg::launch_one(spin, only, never_set.device));
  for (CUresult answer = CUDA_ERROR_NOT_READY; answer != CUDA_SUCCESS; lg::nap(20)) {
    const CUevent behind = lg::event();
    CK(cuEventRecord(behind, only));
    answer = cuEventQuery(behind);
    CK(cuEventDestroy(behind));
  }
  std::puts("the kernel ended");
  return 0;
}
