// Sixty short kernels, which are done, and behind them a host function that waits for the main thread, which waits for the stream.
// expect: LG207 culprit=cuLaunchHostFunc
// card: yes
#include "../corpus.hpp"

SCENARIO(host_function_behind_many_operations) {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream only = lg::stream();
  lg::Gate gate;
  for (int i = 0; i < 60; ++i) CK(lg::launch_one(step, only, word));
  CK(cuLaunchHostFunc(only, [](void* gate) { lg::wait_at(*static_cast<lg::Gate*>(gate)); }, &gate));
  CK(cuStreamSynchronize(only));
  {
    std::lock_guard<std::mutex> hold(gate.mutex);
    gate.open = true;
  }
  gate.opened.notify_all();
  std::puts("the host function returned");
  return 0;
}
