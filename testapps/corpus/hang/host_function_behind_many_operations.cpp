// Sixty short kernels, which are done, and behind them a host function that waits for the main thread, which waits for the stream.
// expect: LG207 culprit=cuLaunchHostFunc
// card: yes
#include <condition_variable>
#include <mutex>

#include "../corpus.hpp"

struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
};

int main() {
  lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream only = lg::stream();
  Gate gate;
  for (int i = 0; i < 60; ++i) CK(lg::launch_one(step, only, word));
  const auto wait = [](void* data) {
    Gate& gate = *static_cast<Gate*>(data);
    std::unique_lock<std::mutex> hold(gate.mutex);
    gate.opened.wait(hold, [&] { return gate.open; });
  };
  CK(cuLaunchHostFunc(only, wait, &gate));
  CK(cuStreamSynchronize(only));
  {
    std::lock_guard<std::mutex> hold(gate.mutex);
    gate.open = true;
  }
  gate.opened.notify_all();
  std::puts("the host function returned");
  return 0;
}
