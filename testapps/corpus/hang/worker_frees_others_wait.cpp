// A worker frees memory while a persistent kernel runs. Another thread launches and waits for the freeing one inside the driver,
// the main thread synchronizes the persistent stream, and a fourth only sleeps.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(worker_frees_others_wait) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  const CUdeviceptr scratch = lg::device_words(1024);
  const CUstream persistent = lg::stream(), work = lg::stream();
  std::atomic<bool> freeing{false}, end{false};
  std::thread sleeps([&] {
    while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  CK(lg::launch_one(spin, persistent, stop.device));
  std::thread frees = lg::thread_in(session.context, [&] {
    freeing = true;
    CK(cuMemFree(scratch));
    *stop.host = 1;
  });
  while (!freeing) std::this_thread::yield();
  lg::head_start();
  std::thread launches = lg::thread_in(session.context, [&] {
    CK(lg::launch_one(step, work, counter.device));
    CK(cuStreamSynchronize(work));
  });
  CK(cuStreamSynchronize(persistent));
  frees.join();
  launches.join();
  end = true;
  sleeps.join();
  std::puts("all threads came back");
  return 0;
}
