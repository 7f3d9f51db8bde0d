// No thread is in the driver: the program spins on a word of host memory that a kernel was launched to set, behind a wait that
// nobody satisfies.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(host_flag_behind_wait) {
  lg::open_session();
  const lg::MappedWord ready = lg::mapped_word();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction set = lg::function(lg::module("corpus"), "set_flag");
  const CUstream waits = lg::stream();
  CK(lg::launch_one(set, waits, ready.device));
  CK(cuCtxSynchronize());
  *ready.host = 0;
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(lg::launch_one(set, waits, ready.device));
  while (*ready.host == 0) {
  }
  std::puts("the flag was set");
  return 0;
}
