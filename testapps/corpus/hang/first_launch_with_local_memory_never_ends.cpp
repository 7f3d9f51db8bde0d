// A kernel that never ends needs more local memory than the context has, and its stream is idle when it is launched, which only the driver
// knows by then. The guard asks the driver about that stream inside the launch: the answer is not about the kernel.
// expect: LG299 culprit=spin_with_locals
// card: yes
#include "../corpus.hpp"

SCENARIO(first_launch_with_local_memory_never_ends) {
  lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "set_flag");
  const CUfunction spin = lg::function(lg::module("corpus_other"), "spin_with_locals");
  const lg::MappedWord flag = lg::mapped_word();
  const CUstream only = lg::stream(), other = lg::stream();
  for (const CUstream stream : {only, other}) CK(lg::launch_one(step, stream, flag.device));
  lg::head_start();
  CK(lg::launch_one(spin, only, never_set.device));
  CK(cuStreamSynchronize(only));
  std::puts("the kernel ended");
  return 0;
}
