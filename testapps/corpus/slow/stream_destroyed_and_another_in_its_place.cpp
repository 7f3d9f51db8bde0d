// Streams that waited for a value by a host's store are destroyed, and others made, perhaps under the same handles. The last has a long
// kernel to do.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(stream_destroyed_and_another_in_its_place) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const lg::MappedWord word = lg::mapped_word();
  CK(lg::launch_one(busy, lg::stream(), 1ull));
  CK(cuCtxSynchronize());
  for (int i = 0; i < 200; ++i) {
    const CUstream passing = lg::stream();
    CK(cuStreamWaitValue32(passing, word.device, i + 1, CU_STREAM_WAIT_VALUE_GEQ));
    *word.host = i + 1;
    CK(cuStreamDestroy(passing));
  }
  lg::pass(0.2);
  *word.host = 0;
  const CUstream last = lg::stream();
  CK(lg::launch_one(busy, last, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(last));
  std::puts("done");
  return 0;
}
