// A stream waits for a value that a kernel of one and a half T writes; before the kernel, its stream allocated memory in its order.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_behind_an_allocation) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream waits = lg::stream(), works = lg::stream();
  CK(lg::launch_one(publish, works, word, 0u, 1ull));
  CK(cuStreamSynchronize(works));
  CUdeviceptr scratch;
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuMemAllocAsync(&scratch, 4096, works));
  CK(lg::launch_one(publish, works, word, 1u, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(waits));
  std::puts("the kernel wrote it");
  return 0;
}
