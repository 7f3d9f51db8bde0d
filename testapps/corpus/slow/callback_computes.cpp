// A stream callback computes for one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

static void compute(CUstream, CUresult, void*) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(lg::pace_ns(1.5));
  volatile unsigned long long sum = 0;
  while (std::chrono::steady_clock::now() < until) sum = sum + 1;
}

SCENARIO(callback_computes) {
  lg::open_session();
  const CUstream work = lg::stream();
  CK(cuStreamAddCallback(work, compute, nullptr, 0));
  CK(cuStreamSynchronize(work));
  std::puts("computed");
  return 0;
}
