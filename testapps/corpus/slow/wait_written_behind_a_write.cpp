// A stream writes a status word, and then its kernel of one and a half T writes the value that another stream waits for.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_behind_a_write) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream waits = lg::stream(), works = lg::stream();
  CK(lg::launch_one(publish, works, words, 0u, 1ull));
  CK(cuStreamSynchronize(works));
  CK(cuStreamWaitValue32(waits, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamWriteValue32(works, words + 4, 1, 0));
  CK(lg::launch_one(publish, works, words, 1u, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(waits));
  std::puts("the kernel wrote it");
  return 0;
}
