// A server says that it is ready, and launches a kernel of its library for its first request, whose load the request waits for.
// hazard: LG110 call=cuLaunchKernel kernel=other_step stream=non-blocking
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include <dlfcn.h>

#include "../corpus.hpp"

SCENARIO(kernel_first_used_when_ready) {
  lg::open_session();
  const auto ready = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "lazyguard_ready"));
  const lg::MappedWord counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUkernel cold = lg::kernel(lg::library("corpus_other"), "other_step");
  const CUstream work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  if (ready != nullptr) ready();
  CK(lg::launch_one(cold, work, counter.device));
  CK(cuStreamSynchronize(work));
  EXPECT(*counter.host == 2);
  std::puts("served");
  return 0;
}
