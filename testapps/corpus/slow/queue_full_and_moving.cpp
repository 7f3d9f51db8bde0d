// More launches than the queue takes, each of a few milliseconds: most calls wait until one kernel has ended, and the thread is
// in such calls for three T.
// expect: slow or none
// card: yes, alone
#include "../corpus.hpp"

SCENARIO(queue_full_and_moving) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  const unsigned long long each = lg::pace_ns(2.4) / 2000;
  for (int i = 0; i < 2000; ++i) CK(lg::launch_one(busy, only, each));
  CK(cuStreamDestroy(only));
  CK(cuCtxSynchronize());
  std::puts("2000 kernels are done");
  return 0;
}
