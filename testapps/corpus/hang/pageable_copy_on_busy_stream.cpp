// An asynchronous copy to pageable memory is submitted to the stream of a persistent kernel: the call waits for that stream, and
// the thread in it is the one that ends the kernel.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(pageable_copy_on_busy_stream) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  std::vector<char> pageable(16 << 20);
  const CUdeviceptr memory = lg::device_words(pageable.size() / 4);
  CK(lg::launch_one(spin, only, stop.device));
  CK(cuMemcpyDtoHAsync(pageable.data(), memory, pageable.size(), only));
  *stop.host = 1;
  CK(cuStreamSynchronize(only));
  std::puts("copied");
  return 0;
}
