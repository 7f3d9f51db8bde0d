// A stream waited for a word of mapped host memory, the host stored it, and nobody ever asked whether the stream went on. Then a
// long kernel on another stream is waited for.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(host_written_wait) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  CK(cuStreamWaitValue32(lg::stream(), word.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  *word.host = 1;
  lg::pass(0.5);
  const CUstream later = lg::stream();
  CK(lg::launch_one(busy, later, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(later));
  std::puts("the long kernel is done");
  return 0;
}
