// A kernel of one and a half T and a host that waits for it.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(only));
  std::puts("the long kernel is done");
  return 0;
}
