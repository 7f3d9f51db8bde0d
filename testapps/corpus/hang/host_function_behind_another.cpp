// A host function waits for what a host function on another stream does. Host functions of a context run one at a time, so the second
// one, whose stream has nothing else in it, is never called.
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

void wait_at(Gate& gate) {
  std::unique_lock<std::mutex> hold(gate.mutex);
  gate.opened.wait(hold, [&] { return gate.open; });
}

int main() {
  lg::open_session();
  const CUstream first = lg::stream(), second = lg::stream();
  Gate gate;
  CK(cuLaunchHostFunc(first, [](void* gate) { wait_at(*static_cast<Gate*>(gate)); }, &gate));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const CUhostFn opens = [](void* opaque) {
    Gate& gate = *static_cast<Gate*>(opaque);
    std::lock_guard<std::mutex> hold(gate.mutex);
    gate.open = true;
    gate.opened.notify_all();
  };
  CK(cuLaunchHostFunc(second, opens, &gate));
  CK(cuStreamSynchronize(second));
  CK(cuStreamSynchronize(first));
  std::puts("both host functions returned");
  return 0;
}
