// Sixteen kernels of a tenth T each, and nothing recorded between them.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(long_chain_without_events) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  for (int i = 0; i < 16; ++i) CK(lg::launch_one(busy, only, lg::pace_ns(0.1)));
  CK(cuStreamSynchronize(only));
  std::puts("sixteen kernels are done");
  return 0;
}
