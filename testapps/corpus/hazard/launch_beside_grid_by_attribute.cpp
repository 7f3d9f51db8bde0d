// As launch_beside_resident_grid, with a grid that an attribute of cuLaunchKernelEx makes cooperative.
// hazard: LG109 call=cuLaunchKernel kernel=step stream=non-blocking
// card: yes
#include "../corpus.hpp"

SCENARIO(launch_beside_grid_by_attribute) {
  lg::open_session();
  lg::MappedWord stop = lg::mapped_word();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), step = lg::function(code, "step");
  const CUstream filled = lg::stream(), other = lg::stream();
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  CUlaunchConfig config{};
  config.gridDimX = lg::blocks_that_fill_the_device();
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 1024;
  config.hStream = filled;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  void* parameters[] = {&stop.device};
  CK(cuLaunchKernelEx(&config, fill, parameters, nullptr));
  CK(lg::launch_one(step, other, counter.device));
  lg::nap(100);
  *stop.host = 1;
  CK(cuCtxSynchronize());
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
