// A synchronous copy goes to the legacy stream, which waits for every blocking stream; on one of them runs a persistent kernel.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(sync_copy_behind_blocking_stream) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUdeviceptr words = lg::device_words(16);
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  int host[16];
  CK(lg::launch_one(spin, lg::stream(CU_STREAM_DEFAULT), stop.device));
  CK(cuMemcpyDtoH(host, words, sizeof host));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("copied");
  return 0;
}
