// A server has loaded and launched its kernel before it says that it is ready, and launches it again.
// hazard: none
// card: yes
#include <dlfcn.h>

#include "../corpus.hpp"

SCENARIO(ready_when_all_is_loaded) {
  lg::open_session();
  const auto ready = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "lazyguard_ready"));
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  if (ready != nullptr) ready();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  std::puts("served");
  return 0;
}
