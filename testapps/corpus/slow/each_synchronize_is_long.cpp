// Three launches of a kernel that takes one and a half T, each waited for: it gets on, a step at a time.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(each_synchronize_is_long) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  for (int i = 0; i < 3; ++i) {
    CK(lg::launch_one(busy, only, lg::pace_ns(1.5)));
    CK(cuStreamSynchronize(only));
  }
  std::puts("three steps");
  return 0;
}
