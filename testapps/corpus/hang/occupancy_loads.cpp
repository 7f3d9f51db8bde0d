// An occupancy query about a kernel that was never used loads it beside a persistent kernel; what is launched afterwards does not
// start.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(occupancy_loads) {
  [[maybe_unused]] const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step"), cold = lg::kernel(code, "set_flag");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));

  int blocks = 0;
  CK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reinterpret_cast<CUfunction>(cold), 128, 0));
  EXPECT(blocks > 0);
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 2);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("occupancy was asked for");
  return 0;
}
