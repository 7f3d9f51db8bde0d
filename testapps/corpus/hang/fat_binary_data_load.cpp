// A fat binary is loaded with cuModuleLoadData while a persistent kernel of the same one, loaded before, runs: each load makes a module of its own.
// expect: LG202 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(fat_binary_data_load) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const std::vector<char> code = lg::as_fat_binary(lg::image("corpus"));
  CUmodule modules[2];
  CK(cuModuleLoadData(&modules[0], code.data()));
  CK(lg::launch_one(lg::function(modules[0], "spin_until"), lg::stream(), stop.device));
  CK(cuModuleLoadData(&modules[1], code.data()));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  EXPECT(modules[0] != modules[1]);
  CK(lg::launch_one(lg::function(modules[1], "step"), lg::stream(), counter.device));
  CK(cuCtxSynchronize());
  std::printf("the second module was loaded, and its kernel has counted to %d\n", *counter.host);
  return 0;
}
