// No thread is blocked in the driver: the program polls the stream of a kernel that never ends.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_a_kernel_that_never_ends) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  CK(lg::launch_one(spin, only, never_set.device));
  while (cuStreamQuery(only) == CUDA_ERROR_NOT_READY) std::this_thread::sleep_for(std::chrono::microseconds(200));
  std::puts("the kernel ended");
  return 0;
}
