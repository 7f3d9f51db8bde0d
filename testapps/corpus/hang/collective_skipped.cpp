// Twenty times a collective and a kernel on the default stream; the peers stop before the fourteenth. A thread polls the events of all that
// are not complete, as PyTorch's watchdog does, and the main thread synchronizes.
// expect: LG208 culprit=ncclDevKernel_AllReduce_Sum_f32_RING_LL innocent=step,cuEventRecord
// card: yes
#include "../collectives.hpp"

SCENARIO(collective_skipped) {
  const lg::Session session = lg::open_session();
  const CUmodule code = lg::module("corpus");
  const CUfunction step = lg::function(code, "step");
  const CUdeviceptr counter = lg::device_words(1);
  lg::Communicator ranks(code);
  static std::vector<CUevent> events;
  for (unsigned n = 1; n <= 20; ++n) {
    if (n <= 13) ranks.peers_have_joined(n);
    events.push_back(lg::event());
    ranks.all_reduce(nullptr, events.back());
    CK(lg::launch_one(step, nullptr, counter));
  }
  std::thread([context = session.context] {
    cuCtxSetCurrent(context);
    for (size_t first = 0; first < events.size();) {
      for (size_t n = first; n < events.size(); ++n) {
        if (cuEventQuery(events[n]) == CUDA_SUCCESS && n == first) ++first;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }).detach();
  CK(cuCtxSynchronize());
  std::puts("all ranks have joined");
  std::_Exit(0);
}
