// A synchronous copy is made while a kernel of two fifths of a second has run for a good while on a blocking stream, and while a stream
// that does not synchronize with the legacy one waits for a value: the copy waits for the kernel, which ends, and not for the value.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(copy_beside_innocent_wait) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUdeviceptr memory = lg::device_words(16);
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  unsigned copy[16] = {1};
  const CUstream waits = lg::stream(), works = lg::stream(CU_STREAM_DEFAULT);
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(busy, works, lg::ms(400)));
  lg::nap(200);
  CK(cuMemcpyDtoH(copy, memory, sizeof copy));
  EXPECT(copy[0] == 0);
  *word.host = 1;
  CK(cuStreamSynchronize(waits));
  std::puts("copied");
  return 0;
}
