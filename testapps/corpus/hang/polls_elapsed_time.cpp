// No thread is blocked in the driver: the program asks for the time between two events, and the kernel between them never ends.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_elapsed_time) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  CUevent before, behind;
  CK(cuEventCreate(&before, CU_EVENT_DEFAULT));
  CK(cuEventCreate(&behind, CU_EVENT_DEFAULT));
  CK(cuEventRecord(before, only));
  CK(lg::launch_one(spin, only, never_set.device));
  CK(cuEventRecord(behind, only));
  for (float time; cuEventElapsedTime(&time, before, behind) == CUDA_ERROR_NOT_READY;) lg::nap(1);
  std::puts("the kernel ended");
  return 0;
}
