// A kernel of one and a half T, and behind it more short ones than the queue takes.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(queue_full_behind_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::pace_ns(1.5)));
  for (int i = 0; i < 1500; ++i) CK(lg::launch_one(busy, only, 1000ull));
  CK(cuStreamSynchronize(only));
  std::puts("1501 kernels are done");
  return 0;
}
