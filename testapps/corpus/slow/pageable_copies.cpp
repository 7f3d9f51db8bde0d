// Pageable copies, each behind a kernel of two fifths T: every call waits for its stream, and none for long.
// expect: none
// card: yes
#include "../corpus.hpp"

SCENARIO(pageable_copies) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  std::vector<char> pageable(1 << 20);
  const CUdeviceptr memory = lg::device_words(pageable.size() / 4);
  for (int i = 0; i < 5; ++i) {
    CK(lg::launch_one(busy, only, lg::pace_ns(0.4)));
    CK(cuMemcpyDtoHAsync(pageable.data(), memory, pageable.size(), only));
  }
  CK(cuStreamSynchronize(only));
  std::puts("copied five times");
  return 0;
}
