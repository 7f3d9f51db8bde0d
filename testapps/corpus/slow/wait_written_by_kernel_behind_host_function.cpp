// A stream waits for a value. Elsewhere a host function sleeps for one and a half T; a third stream waits for an event behind it, and
// its kernel then writes the value.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_by_kernel_behind_host_function) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction publish = lg::function(lg::module("corpus"), "publish");
  const CUstream waits = lg::stream(), hosts = lg::stream(), works = lg::stream();
  CK(lg::launch_one(publish, works, word, 0u, 1ull));
  CK(cuStreamSynchronize(works));
  const CUevent done = lg::event();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuLaunchHostFunc(hosts, [](void*) { lg::pass(1.5); }, nullptr));
  CK(cuEventRecord(done, hosts));
  CK(cuStreamWaitEvent(works, done, 0));
  CK(lg::launch_one(publish, works, word, 1u, 1000ull));
  CK(cuStreamSynchronize(waits));
  std::puts("the kernel wrote it");
  return 0;
}
