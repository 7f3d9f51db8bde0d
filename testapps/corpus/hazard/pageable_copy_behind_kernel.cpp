// An asynchronous copy to memory that is not pinned is submitted behind a kernel of half a second: the call lasts as long.
// hazard: LG105 call=cuMemcpyDtoHAsync kernel=- stream=non-blocking
// card: yes
#include "../corpus.hpp"

SCENARIO(pageable_copy_behind_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  std::vector<char> pageable(1 << 20);
  const CUdeviceptr memory = lg::device_words(pageable.size() / 4);
  CK(lg::launch_one(busy, only, lg::ms(500)));
  CK(cuMemcpyDtoHAsync(pageable.data(), memory, pageable.size(), only));
  CK(cuStreamSynchronize(only));
  std::puts("copied");
  return 0;
}
