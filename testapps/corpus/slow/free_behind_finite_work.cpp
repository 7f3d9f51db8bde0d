// Memory is freed behind a kernel of seven tenths T: the call waits for the context, as a hanging one would, and comes back.
// expect: none
// card: yes
#include "../corpus.hpp"

SCENARIO(free_behind_finite_work) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr scratch = lg::device_words(1024);
  CK(lg::launch_one(busy, lg::stream(), lg::pace_ns(0.7)));
  CK(cuMemFree(scratch));
  std::puts("freed");
  return 0;
}
