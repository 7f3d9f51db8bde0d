// Memory is freed when everything that was in flight has been waited for: a kernel of a fifth of a second, and a stream that waited for a
// value.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(free_after_synchronize) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr word = lg::device_words(1), scratch = lg::device_words(1024);
  const CUstream writes = lg::stream(), waits = lg::stream();
  CK(lg::launch_one(busy, writes, lg::ms(200)));
  CK(cuStreamWriteValue32(writes, word, 1, 0));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamSynchronize(waits));
  CK(cuStreamSynchronize(writes));
  CK(cuMemFree(scratch));
  std::puts("freed");
  return 0;
}
