// Memory is freed behind a kernel of one and a half T: the call waits for the context and comes back.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(free_behind_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr scratch = lg::device_words(1024);
  CK(lg::launch_one(busy, lg::stream(), lg::pace_ns(1.5)));
  CK(cuMemFree(scratch));
  std::puts("freed");
  return 0;
}
