// As frees_then_another_loads, in the other order: the load is there first.
// expect: LG202 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(loads_then_another_frees) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUdeviceptr scratch = lg::device_words(1024);
  const CUstream persistent = lg::stream();
  CK(lg::launch_one(spin, persistent, stop.device));
  std::atomic<bool> loading{false};
  std::thread loads = lg::thread_in(session.context, [&] {
    loading = true;
    lg::module("corpus_other");
  });
  while (!loading) std::this_thread::yield();
  lg::head_start();
  std::thread frees = lg::thread_in(session.context, [&] {
    CK(cuMemFree(scratch));
    *stop.host = 1;
  });
  loads.join();
  frees.join();
  std::puts("both threads came back");
  return 0;
}
