// A second context, idle, is destroyed while a persistent kernel runs in the first: the destruction waits for the whole device.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(destroy_of_idle_context) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream persistent = lg::stream();
  CUcontext second;
  CK(cuCtxCreate(&second, nullptr, 0, session.device));
  CK(cuCtxSetCurrent(session.context));
  CK(lg::launch_one(spin, persistent, stop.device));
  CK(cuCtxDestroy(second));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the second context is gone");
  return 0;
}
