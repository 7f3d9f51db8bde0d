// The control of lazy_pair: both launches are of one kernel, which is loaded when the first is made.
//
// bare:    completes, prints nothing
// guarded: completes, prints nothing
// off:     completes, no verdict
#include "../common/runtime_twin.hpp"

TWIN_UNIT(lazy_pair);

int main() {
  CUstream s1 = twin::cudaStreamCreate();
  CUstream s2 = twin::cudaStreamCreate();
  twin::launch(lazy_pair, "k", 1, 1, s1, 0);
  twin::launch(lazy_pair, "k", 1, 1, s2, 1);
  twin::cudaDeviceSynchronize();
  return 0;
}
