// Two translation units: a persistent kernel spins on a mapped host word, and the host releases it only after a one-time kernel of another
// library, which nothing loads before.
//
// bare:    hangs in the one-time kernel's cuLaunchKernel (its module cannot enter the context)
// guarded: completes, prints two lines (only because the loading-mode question is answered EAGER: otherwise the second library is not
//          known before it is too late)
// off:     hangs, LG202
#include <cstdio>

#include "../common/check.hpp"
#include "../common/runtime_twin.hpp"

TWIN_UNIT(persistent_kernel);
TWIN_UNIT(one_time_kernel);

int main() {
  const twin::MappedMemory words = twin::cudaHostAllocMapped(2 * sizeof(int));
  volatile int* const stop = static_cast<int*>(words.host);
  volatile int* const result = stop + 1;
  *stop = 0;
  *result = 0;
  CUstream persistent = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);
  CUstream one_time = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);

  twin::launch(persistent_kernel, "persistent_kernel", 1, 1, persistent, words.device);
  twin::launch(one_time_kernel, "one_time_kernel", 1, 1, one_time, words.device + sizeof(int));
  twin::cudaStreamSynchronize(one_time);
  EXPECT(*result == 42);
  std::puts("one-time kernel wrote 42");

  *stop = 1;
  twin::cudaStreamSynchronize(persistent);
  std::puts("persistent kernel stopped");
  twin::cudaStreamDestroy(persistent);
  twin::cudaStreamDestroy(one_time);
  twin::cudaFreeHost(words.host);
  return 0;
}
