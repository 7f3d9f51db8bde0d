// The usual fork and join: a second stream waits for an event behind a long kernel of the first, works, and the first waits for an
// event behind that. Streams wait for each other in turn, and nothing waits for itself.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(fork_and_join) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  const CUstream main_stream = lg::stream(), side = lg::stream();
  const CUevent fork = lg::event(), join = lg::event();
  CK(lg::launch_one(step, side, word));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(busy, main_stream, lg::pace_ns(1.5)));
  CK(cuEventRecord(fork, main_stream));
  CK(cuStreamWaitEvent(side, fork, 0));
  CK(lg::launch_one(step, side, word));
  CK(cuEventRecord(join, side));
  CK(cuStreamWaitEvent(main_stream, join, 0));
  CK(lg::launch_one(step, main_stream, word));
  CK(cuStreamSynchronize(main_stream));
  std::puts("joined");
  return 0;
}
