// A host function waits on a condition variable that nobody ever signals, and a kernel behind it is waited for.
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
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream work = lg::stream();
  Gate gate;
  CK(lg::launch_one(step, work, counter.device));
  CK(cuLaunchHostFunc(work, [](void* gate) { wait_at(*static_cast<Gate*>(gate)); }, &gate));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  std::puts("the host function returned");
  return 0;
}
