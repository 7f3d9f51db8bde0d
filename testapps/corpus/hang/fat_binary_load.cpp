// A fat binary is loaded with cuModuleLoadFatBinary, and its kernel launched, while a persistent kernel of another module runs.
// expect: LG202 culprit=spin_until
// with-profile: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(fat_binary_load) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const std::vector<char> code = lg::as_fat_binary(lg::image("corpus_other"));
  CUmodule other;
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuModuleLoadFatBinary(&other, code.data()));
  const CUstream work = lg::stream();
  CK(lg::launch_one(lg::function(other, "other_step"), work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::printf("the fat binary was loaded, and its kernel has counted to %d\n", *counter.host);
  return 0;
}
