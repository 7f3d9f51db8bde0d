// With per-thread default streams, a kernel never ends on the main thread's, a second thread's work on its own ends, and the main
// thread waits.
// expect: LG299 culprit=spin_until innocent=step
// card: yes
// build: -DCUDA_API_PER_THREAD_DEFAULT_STREAM
#include "../corpus.hpp"

SCENARIO(per_thread_stream_spins) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), step = lg::function(code, "step");
  CK(lg::launch_one(spin, nullptr, never_set.device));
  std::thread other = lg::thread_in(session.context, [&] {
    CK(lg::launch_one(step, nullptr, counter.device));
    CK(cuStreamSynchronize(nullptr));
  });
  other.join();
  CK(cuStreamSynchronize(nullptr));
  std::puts("the kernel ended");
  return 0;
}
