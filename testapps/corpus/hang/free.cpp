// Device memory that has nothing to do with the persistent kernel is freed while it runs: cuMemFree waits for the whole context,
// and the thread in it is the one that ends the kernel.
// expect: LG204 culprit=spin_until
// card: yes
#include "../corpus.hpp"

SCENARIO(free) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until");
  const CUdeviceptr scratch = lg::device_words(1024);
  CK(lg::launch_one(spin, lg::stream(), stop.device));
  CK(cuMemFree(scratch));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("the call returned");
  return 0;
}
