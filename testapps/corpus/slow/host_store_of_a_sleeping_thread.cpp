// A stream waits for a word of the host's memory that a thread stores after it has slept for five T. The main thread waits for a host function behind
// the wait, and no thread is in a call.
// expect: none
// card: yes
#include "../corpus.hpp"

SCENARIO(host_store_of_a_sleeping_thread) {
  static lg::Gate called;
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  const auto opens = [](void*) {
    const std::lock_guard<std::mutex> hold(called.mutex);
    called.open = true;
    called.opened.notify_all();
  };
  CK(cuLaunchHostFunc(waits, opens, nullptr));
  std::thread late([&] {
    lg::pass(5);
    *word.host = 1;
  });
  lg::wait_at(called);
  late.join();
  std::puts("the value was stored late");
  return 0;
}
