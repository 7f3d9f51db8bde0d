// With CUDA_DEVICE_MAX_CONNECTIONS=1 a persistent kernel runs, nothing waits behind it, and a kernel of another stream ends it after one and a half T: a
// kernel that runs keeps no other of its hardware queue from starting.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(one_queue_with_nothing_at_its_head) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for"), set = lg::function(code, "set_flag");
  const CUstream first = lg::stream(), beside = lg::stream();
  CK(lg::launch_one(spin, first, stop.device));
  CK(lg::launch_one(busy, beside, lg::pace_ns(1.5)));
  CK(lg::launch_one(set, beside, stop.device));
  CK(cuStreamSynchronize(first));
  std::puts("the kernel was ended");
  return 0;
}
