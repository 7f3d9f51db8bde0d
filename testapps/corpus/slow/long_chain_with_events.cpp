// Sixteen kernels of a quarter T each, with an event recorded after each that the program never asks about: one synchronize waits
// four T, and all the while something ends.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(long_chain_with_events) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  for (int i = 0; i < 16; ++i) {
    CK(lg::launch_one(busy, only, lg::pace_ns(0.25)));
    CK(cuEventRecord(lg::event(), only));
  }
  CK(cuStreamSynchronize(only));
  std::puts("sixteen kernels are done");
  return 0;
}
