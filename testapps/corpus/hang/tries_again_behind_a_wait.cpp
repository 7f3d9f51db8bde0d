// A stream waits for a value that nothing writes. A retry each quarter of T adds a kernel and a host function behind it, and waits no longer than
// that for the host function.
// expect: LG203 culprit=cuStreamWaitValue32_v2 innocent=step
// card: yes
#include "../corpus.hpp"

SCENARIO(tries_again_behind_a_wait) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream work = lg::stream();
  CK(lg::launch_one(step, work, words + 4));
  CK(cuStreamSynchronize(work));
  CK(cuStreamWaitValue32(work, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  static std::atomic<bool> called{false};
  while (!called) {
    CK(cuLaunchHostFunc(work, [](void*) { called = true; }, nullptr));
    CK(lg::launch_one(step, work, words + 4));
    lg::pass(0.25);
  }
  std::puts("the value came from nowhere");
  return 0;
}
