// A stream waits for a value that another stream was told to write before, behind a kernel of a twentieth of a second. The wait lasts, and
// needs nothing that is still to be submitted.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_after_its_write) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream waits = lg::stream(), writes = lg::stream();
  CK(lg::launch_one(busy, writes, lg::ms(50)));
  CK(cuStreamWriteValue32(writes, word, 1, 0));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamSynchronize(waits));
  std::puts("the value came");
  return 0;
}
