// A stream waits for a value that nothing writes, with nothing cold anywhere.
//
// bare:    hangs in cuStreamSynchronize
// guarded: hangs, LG203 (naming the address and the value 7)
// off:     hangs, LG203
#include <cstdio>

#include "../common/session.hpp"

int main() {
  lg::open_session();
  CUdeviceptr word;
  CUstream stream;
  CK(cuMemAlloc(&word, sizeof(cuuint32_t)));
  CK(cuMemsetD32(word, 0, 1));
  CK(cuCtxSynchronize());
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CK(cuStreamWaitValue32(stream, word, 7, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamSynchronize(stream));
  std::puts("the value came from nowhere");
  return 0;
}
