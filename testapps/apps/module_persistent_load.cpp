// A second module is loaded while a persistent kernel of the first runs. The image is not known to anyone before, so nothing can have
// loaded it early: the one hang here that no preloading prevents.
//
// bare:    hangs in cuModuleLoadData
// guarded: hangs, LG202
// off:     hangs, LG202
#include <cstdio>

#include "../common/image.hpp"
#include "../common/session.hpp"

int main() {
  lg::open_session();
  const auto persistent_code = lg::image("persistent_kernel");
  const auto one_time_code = lg::image("one_time_kernel");
  const lg::MappedWord stop = lg::mapped_word();
  const lg::MappedWord result = lg::mapped_word();
  CUmodule persistent_module, one_time_module;
  CUfunction persistent_kernel, one_time_kernel;
  CUstream persistent, one_time;
  CK(cuStreamCreate(&persistent, CU_STREAM_NON_BLOCKING));
  CK(cuStreamCreate(&one_time, CU_STREAM_NON_BLOCKING));
  CK(cuModuleLoadData(&persistent_module, persistent_code.data()));
  CK(cuModuleGetFunction(&persistent_kernel, persistent_module, "persistent_kernel"));
  CK(lg::launch_one(persistent_kernel, persistent, stop.device));

  CK(cuModuleLoadData(&one_time_module, one_time_code.data()));
  CK(cuModuleGetFunction(&one_time_kernel, one_time_module, "one_time_kernel"));
  CK(lg::launch_one(one_time_kernel, one_time, result.device));
  CK(cuStreamSynchronize(one_time));
  EXPECT(*result.host == 42);
  *stop.host = 1;
  CK(cuStreamSynchronize(persistent));
  std::puts("second module loaded under a persistent kernel");
  return 0;
}
