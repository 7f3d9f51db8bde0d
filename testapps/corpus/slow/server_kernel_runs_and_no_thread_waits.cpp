// A server's persistent kernel runs on a stream for which no thread waits, for five T. The main thread serves requests on another stream, and a
// thread sleeps for a while at a time.
// expect: none
// card: yes
#include "../corpus.hpp"

SCENARIO(server_kernel_runs_and_no_thread_waits) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuCtxSynchronize());
  CK(lg::launch_one(spin, persistent, stop.device));
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(5));
  while (std::chrono::steady_clock::now() < until) {
    CK(lg::launch_one(busy, work, lg::ms(1)));
    CK(cuStreamSynchronize(work));
    lg::nap(20);
  }
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("served");
  return 0;
}
