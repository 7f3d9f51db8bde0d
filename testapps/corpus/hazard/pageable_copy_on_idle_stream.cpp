// An asynchronous copy to memory that is not pinned, large enough to take a while, is submitted to a stream that has nothing to do; another
// stream has. A copy to pinned memory behind a kernel holds nobody.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(pageable_copy_on_idle_stream) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream works = lg::stream(), copies = lg::stream();
  std::vector<char> pageable(16 << 20);
  const CUdeviceptr memory = lg::device_words(pageable.size() / 4);
  void* pinned = nullptr;
  CK(cuMemHostAlloc(&pinned, 4096, 0));
  CK(lg::launch_one(busy, copies, 1ull));
  CK(cuStreamSynchronize(copies));
  CK(lg::launch_one(busy, works, lg::ms(50)));
  CK(cuMemcpyDtoHAsync(pageable.data(), memory, pageable.size(), copies));
  CK(cuMemcpyDtoHAsync(pinned, memory, 4096, works));
  CK(cuCtxSynchronize());
  std::puts("copied");
  return 0;
}
