// Twenty-four streams, on each a few kernels of different length, one and a half T at most, and a wait for the whole context.
// expect: slow
// card: yes, alone
#include "../corpus.hpp"

int main() {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  for (int i = 0; i < 24; ++i) {
    const CUstream stream = lg::stream();
    for (int j = 0; j < 3; ++j) CK(lg::launch_one(busy, stream, lg::pace_ns(0.5 * (i + 1) / 24)));
  }
  CK(cuCtxSynchronize());
  std::puts("all streams are done");
  return 0;
}
