// A worker frees memory while a persistent kernel runs, and a moment later another one loads a module. Each of the two calls would
// block by itself, and the second waits for the first one's lock as well: the call that was there first is what to begin with.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(frees_then_another_loads) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUdeviceptr scratch = lg::device_words(1024);
  const CUstream persistent = lg::stream();
  CK(lg::launch_one(spin, persistent, stop.device));
  std::atomic<bool> freeing{false};
  std::thread frees = lg::thread_in(session.context, [&] {
    freeing = true;
    CK(cuMemFree(scratch));
  });
  while (!freeing) std::this_thread::yield();
  lg::head_start();
  std::thread loads = lg::thread_in(session.context, [&] {
    lg::module("corpus_other");
    *stop.host = 1;
  });
  frees.join();
  loads.join();
  std::puts("both threads came back");
  return 0;
}
