// What every first program does, with a kernel that takes long: a kernel on the default stream, then a copy of its result.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(default_stream_copy_behind_long_kernel) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  CK(lg::launch_one(lg::function(code, "publish"), nullptr, word, 7u, lg::pace_ns(1.5)));
  unsigned result = 0;
  CK(cuMemcpyDtoH(&result, word, sizeof result));
  EXPECT(result == 7);
  std::puts("copied");
  return 0;
}
