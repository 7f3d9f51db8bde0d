// The program polls the stream of a kernel of one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::pace_ns(1.5)));
  while (cuStreamQuery(only) == CUDA_ERROR_NOT_READY) std::this_thread::sleep_for(std::chrono::microseconds(200));
  CK(cuStreamSynchronize(only));
  std::puts("the long kernel is done");
  return 0;
}
