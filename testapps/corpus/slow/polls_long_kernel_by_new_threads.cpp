// A new thread asks about the stream of a kernel of two T each time, once.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_long_kernel_by_new_threads) {
  const lg::Session session = lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  CK(lg::launch_one(busy, only, lg::pace_ns(2)));
  for (CUresult answer = CUDA_ERROR_NOT_READY; answer != CUDA_SUCCESS; lg::nap(20)) {
    lg::thread_in(session.context, [&] { answer = cuStreamQuery(only); }).join();
  }
  std::puts("the long kernel is done");
  return 0;
}
