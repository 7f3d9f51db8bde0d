// A kernel waits for what the kernel behind it on the same stream publishes.
// expect: LG299 culprit=consume
// card: yes
#include "../corpus.hpp"

SCENARIO(producer_behind_consumer) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  const CUfunction consume = lg::function(code, "consume"), publish = lg::function(code, "publish");
  const CUstream only = lg::stream();
  CK(lg::launch_one(consume, only, word, 1u));
  CK(lg::launch_one(publish, only, word, 1u, 0ull));
  CK(cuStreamSynchronize(only));
  std::puts("consumed");
  return 0;
}
