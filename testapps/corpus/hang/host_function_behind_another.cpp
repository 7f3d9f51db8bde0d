// A host function waits for what a host function on another stream does. Host functions of a context run one at a time, so the second
// one, whose stream has nothing else in it, is never called.
// expect: LG207 culprit=cuLaunchHostFunc
// card: yes
#include "../corpus.hpp"

SCENARIO(host_function_behind_another) {
  lg::open_session();
  const CUstream first = lg::stream(), second = lg::stream();
  lg::Gate gate;
  CK(cuLaunchHostFunc(first, [](void* gate) { lg::wait_at(*static_cast<lg::Gate*>(gate)); }, &gate));
  lg::head_start();
  const CUhostFn opens = [](void* opaque) {
    lg::Gate& gate = *static_cast<lg::Gate*>(opaque);
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
