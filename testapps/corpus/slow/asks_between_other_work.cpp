// A thread works on one stream and asks about another after each piece, whose kernel ends when the host says so, after thirteen T. A program that
// waits for that kernel in vain does the same.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(asks_between_other_work) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(spin, persistent, stop.device));
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(13));
  while (std::chrono::steady_clock::now() < until) {
    CK(lg::launch_one(busy, work, lg::ms(1)));
    CK(cuStreamSynchronize(work));
    EXPECT(cuStreamQuery(persistent) == CUDA_ERROR_NOT_READY);
    lg::nap(5);
  }
  *stop.host = 1;
  CK(cuStreamSynchronize(persistent));
  std::puts("both are done");
  return 0;
}
