// More launches than a stream's queue takes are submitted behind a persistent kernel by the thread that would end it afterwards.
// expect: LG205 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(queue_full) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  const CUstream only = lg::stream();
  CK(lg::launch_one(spin, only, stop.device));
  for (int i = 0; i < 5000; ++i) CK(lg::launch_one(step, only, counter.device));
  *stop.host = 1;
  CK(cuStreamSynchronize(only));
  EXPECT(*counter.host == 5000);
  std::puts("5000 steps");
  return 0;
}
