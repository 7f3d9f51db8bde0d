// Two threads use their own default streams (per-thread default streams): one runs a persistent kernel, the other launches a cold
// one and synchronizes.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
// build: -DCUDA_API_PER_THREAD_DEFAULT_STREAM
#include "../corpus.hpp"

SCENARIO(per_thread_streams_load) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel spin = lg::kernel(code, "spin_until"), step = lg::kernel(code, "step");
  std::atomic<bool> spinning{false};
  std::thread other = lg::thread_in(session.context, [&] {
    CK(lg::launch_one(spin, nullptr, stop.device));
    spinning = true;
    CK(cuStreamSynchronize(nullptr));
  });
  while (!spinning) std::this_thread::yield();
  CK(lg::launch_one(step, nullptr, counter.device));
  CK(cuStreamSynchronize(nullptr));
  *stop.host = 1;
  other.join();
  std::puts("a step on a default stream of its own");
  return 0;
}
