// The program asks for the time between two events until it is known; the kernel between them lasts one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(polls_elapsed_time_of_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream only = lg::stream();
  CUevent before, behind;
  CK(cuEventCreate(&before, CU_EVENT_DEFAULT));
  CK(cuEventCreate(&behind, CU_EVENT_DEFAULT));
  CK(cuEventRecord(before, only));
  CK(lg::launch_one(busy, only, lg::pace_ns(1.5)));
  CK(cuEventRecord(behind, only));
  float time;
  while (cuEventElapsedTime(&time, before, behind) == CUDA_ERROR_NOT_READY) lg::nap(1);
  EXPECT(time > 0);
  std::puts("the time is known");
  return 0;
}
