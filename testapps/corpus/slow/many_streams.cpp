// Twenty-four streams, on each a kernel of another length, one and a half T at most, and a wait for the whole context.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(many_streams) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  for (int i = 0; i < 24; ++i) {
    CK(lg::launch_one(busy, lg::stream(), lg::pace_ns(1.5 * (i + 1) / 24)));
  }
  CK(cuCtxSynchronize());
  std::puts("all streams are done");
  return 0;
}
