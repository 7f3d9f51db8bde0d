// A kernel never ends, and a thread launches short kernels on another stream without a pause, each of which ends. A second module is loaded
// meanwhile: it is the one kernel that it waits for in vain, and not the stream that is fed.
// expect: LG202 culprit=spin_until innocent=busy_for
// card: yes
#include "../corpus.hpp"

int main() {
  const lg::Session session = lg::open_session();
  const lg::MappedWord never_set = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), busy = lg::function(code, "busy_for");
  const CUstream healthy = lg::stream();
  std::atomic<bool> fed{false};
  CK(lg::launch_one(busy, healthy, 20'000ull));
  CK(lg::launch_one(spin, lg::stream(), never_set.device));
  std::thread([&] {
    cuCtxSetCurrent(session.context);
    for (;;) {
      lg::launch_one(busy, healthy, 20'000ull);
      fed = true;
    }
  }).detach();
  while (!fed) std::this_thread::yield();
  lg::module("corpus_other");
  std::puts("the second module was loaded");
  std::_Exit(0);
}
