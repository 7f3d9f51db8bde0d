// A context is destroyed while a persistent kernel runs in it, and another thread waits for that kernel: the destruction waits too.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(destroy_of_busy_context) {
  CK(cuInit(0));
  CUcontext context;
  CK(cuCtxCreate(&context, nullptr, 0, 0));
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream persistent = lg::stream();
  CK(lg::launch_one(spin, persistent, stop.device));
  std::thread waits = lg::thread_in(context, [&] { cuStreamSynchronize(persistent); });
  lg::head_start();
  CK(cuCtxDestroy(context));
  *stop.host = 1;
  waits.join();
  std::puts("the context is gone");
  return 0;
}
