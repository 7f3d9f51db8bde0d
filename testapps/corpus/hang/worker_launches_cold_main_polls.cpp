// A worker launches a cold kernel beside a persistent one and synchronizes, the main thread polls an event of a third stream
// whose kernel has run before, and two more threads sleep or compute and have nothing to do with it.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(worker_launches_cold_main_polls) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word(), other = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step"), cold = lg::kernel(code, "set_flag");
  const CUstream persistent = lg::stream(), work = lg::stream(), third = lg::stream();
  CK(lg::launch_one(step, third, counter.device));
  CK(cuStreamSynchronize(third));
  std::atomic<bool> end{false}, launched{false};
  std::thread sleeps([&] {
    while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  std::thread computes = lg::thread_in(session.context, [&] {
    size_t free_bytes, all_bytes;
    while (!end) {
      CK(cuMemGetInfo(&free_bytes, &all_bytes));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));
  std::thread worker = lg::thread_in(session.context, [&] {
    CK(lg::launch_one(cold, work, other.device));
    launched = true;
    CK(cuStreamSynchronize(work));
  });
  while (!launched) std::this_thread::yield();
  const CUevent stepped = lg::event();
  CK(lg::launch_one(step, third, counter.device));
  CK(cuEventRecord(stepped, third));
  while (cuEventQuery(stepped) == CUDA_ERROR_NOT_READY) std::this_thread::sleep_for(std::chrono::microseconds(100));
  *stop.host = 1;
  worker.join();
  end = true;
  sleeps.join();
  computes.join();
  CK(cuCtxSynchronize());
  std::puts("all threads came back");
  return 0;
}
