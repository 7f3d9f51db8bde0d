// A stream waits for a value that the host stores itself a twentieth of a second later, and for another that is written behind it in the
// order of its own stream: neither needs anything that is still to be submitted.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_by_host) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUdeviceptr other = lg::device_words(1);
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue32(waits, other, 7, 0));
  CK(cuStreamWaitValue32(waits, other, 7, CU_STREAM_WAIT_VALUE_EQ));
  lg::nap(50);
  *word.host = 1;
  CK(cuStreamSynchronize(waits));
  std::puts("the values came");
  return 0;
}
