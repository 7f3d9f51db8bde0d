// One translation unit: a persistent kernel spins on a mapped host word, a one-time kernel goes to another stream, that
// stream is synchronized, and only then does the host release the persistent one.
//
// bare:    hangs in cuStreamSynchronize (the one-time kernel's load put a barrier behind the persistent one)
// guarded: completes, prints two lines
// off:     hangs, LG201
#include <cstdio>

#include "../common/check.hpp"
#include "../common/runtime_twin.hpp"

TWIN_UNIT(persistent_one_time);

int main() {
  const twin::MappedMemory words = twin::cudaHostAllocMapped(2 * sizeof(int));
  volatile int* const stop = static_cast<int*>(words.host);
  volatile int* const result = stop + 1;
  *stop = 0;
  *result = 0;
  CUstream persistent = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);
  CUstream one_time = twin::cudaStreamCreateWithFlags(CU_STREAM_NON_BLOCKING);

  twin::launch(persistent_one_time, "persistent_kernel", 1, 1, persistent, words.device);
  twin::launch(persistent_one_time, "one_time_kernel", 1, 1, one_time, words.device + sizeof(int));
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
