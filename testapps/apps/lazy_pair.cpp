// k1 spins on a device variable on one stream, k2, cold, sets it from another stream.
//
// bare:    hangs in cuCtxSynchronize (k2's load put a barrier behind k1)
// guarded: completes, prints nothing
// off:     hangs, LG201
#include "../common/runtime_twin.hpp"

TWIN_UNIT(lazy_pair);

int main() {
  CUstream s1 = twin::cudaStreamCreate();
  CUstream s2 = twin::cudaStreamCreate();
  twin::launch(lazy_pair, "k1", 1, 1, s1);
  twin::launch(lazy_pair, "k2", 1, 1, s2);
  twin::cudaDeviceSynchronize();
  return 0;
}
