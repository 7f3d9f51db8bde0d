// One thread is blocked loading a module into the context of a persistent kernel. The main thread and another want to launch and
// to allocate, and wait for the loading thread; a fourth computes and never calls the driver.
// expect: LG202 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(worker_loads_others_launch) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  const CUstream persistent = lg::stream(), work = lg::stream();
  std::atomic<bool> loading{false}, end{false};
  std::thread computes([&] {
    while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CK(lg::launch_one(spin, persistent, stop.device));
  std::thread loads = lg::thread_in(session.context, [&] {
    loading = true;
    lg::module("corpus_other");
  });
  while (!loading) std::this_thread::yield();
  lg::head_start();
  std::thread allocates = lg::thread_in(session.context, [&] { lg::device_words(1024); });
  for (int i = 0; i < 10; ++i) CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  loads.join();
  allocates.join();
  end = true;
  computes.join();
  std::puts("all threads came back");
  return 0;
}
