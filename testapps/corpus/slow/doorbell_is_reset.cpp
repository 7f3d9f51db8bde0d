// A doorbell in mapped memory: the host rings it, the stream goes past its wait and acknowledges, the host resets the bell for the next
// round. Then the stream is at a long kernel.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(doorbell_is_reset) {
  lg::open_session();
  const lg::MappedWord bell = lg::mapped_word(), seen = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction set = lg::function(code, "set_flag"), busy = lg::function(code, "busy_for");
  const CUstream work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(work, bell.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(set, work, seen.device));
  CK(lg::launch_one(busy, work, lg::pace_ns(1.6)));
  *bell.host = 1;
  while (*seen.host == 0) std::this_thread::yield();
  *bell.host = 0;
  CK(cuStreamSynchronize(work));
  std::puts("answered");
  return 0;
}
