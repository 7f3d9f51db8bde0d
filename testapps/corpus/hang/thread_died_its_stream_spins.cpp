// A thread launches a kernel that never ends on its own default stream and ends. The main thread waits for the context.
// expect: LG299 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(thread_died_its_stream_spins) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  lg::thread_in(session.context, [&] { CK(lg::launch_one(spin, CU_STREAM_PER_THREAD, never_set.device)); }).join();
  CK(cuCtxSynchronize());
  std::puts("the kernel ended");
  return 0;
}
