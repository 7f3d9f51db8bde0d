// A module is loaded while a kernel of two T runs: the load waits for it and comes back.
// It is called a hang after the threshold: nobody outside knows that the kernel ends by itself.
// expect: slow
// told: LG202
// card: yes
#include "../corpus.hpp"

SCENARIO(module_load_behind_long_kernel) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  CK(lg::launch_one(busy, lg::stream(), lg::pace_ns(2)));
  lg::module("corpus_other");
  std::puts("loaded");
  return 0;
}
