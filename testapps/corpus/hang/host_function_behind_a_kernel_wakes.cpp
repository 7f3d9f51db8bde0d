// The main thread waits for a condition variable that a host function signals. The host function stands behind a kernel that waits for a word, which the
// main thread would store once it is awake. No thread is in a call.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(host_function_behind_a_kernel_wakes) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream work = lg::stream();
  static lg::Gate ended;
  CK(lg::launch_one(spin, work, word.device));
  const auto opens = [](void*) {
    const std::lock_guard<std::mutex> hold(ended.mutex);
    ended.open = true;
    ended.opened.notify_all();
  };
  CK(cuLaunchHostFunc(work, opens, nullptr));
  lg::wait_at(ended);
  *word.host = 1;
  CK(cuStreamSynchronize(work));
  std::puts("woken");
  return 0;
}
