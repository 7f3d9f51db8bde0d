// A stream waits for a value that another one writes behind a kernel of five T. A retry each quarter of T adds a kernel and a host function behind
// the wait, and waits no longer than that for the host function. A third stream takes in the same behind a kernel of its own.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(tries_again_behind_a_long_kernel) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  const CUstream waits = lg::stream(), writes = lg::stream(), serves = lg::stream();
  CK(lg::launch_one(busy, waits, 1ull));
  CK(lg::launch_one(step, waits, words + 4));
  CK(cuStreamSynchronize(waits));
  for (const CUstream stream : {writes, serves}) CK(lg::launch_one(busy, stream, lg::pace_ns(5)));
  CK(cuStreamWriteValue32(writes, words, 1, 0));
  CK(cuStreamWaitValue32(waits, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  static std::atomic<int> called{0};
  while (called < 2) {
    for (const CUstream stream : {waits, serves}) {
      CK(cuLaunchHostFunc(stream, [](void*) { ++called; }, nullptr));
      CK(lg::launch_one(step, stream, words + 4));
    }
    lg::pass(0.25);
  }
  CK(cuCtxSynchronize());
  std::puts("called");
  return 0;
}
