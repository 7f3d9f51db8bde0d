// A kernel reads a bad address: every call that asks about it answers the same error, however often, and the process ends as it wants.
//
// bare:    prints its line
// guarded: the same, also where the driver is ready for a GPU core dump and writes one
// off:     the same
#include <unistd.h>

#include <cstdio>

#include "../common/image.hpp"
#include "../common/session.hpp"

int main() {
  lg::open_session();
  const auto code = lg::image("faulting");
  CUmodule module;
  CUfunction reads;
  CUdeviceptr word;
  CK(cuModuleLoadData(&module, code.data()));
  CK(cuModuleGetFunction(&reads, module, "reads_bad_address"));
  CK(cuMemAlloc(&word, sizeof(int)));
  // It may answer the error already.
  lg::launch_one(reads, nullptr, word);
  const int synchronized = cuCtxSynchronize(), queried = cuStreamQuery(nullptr);
  int value = 0;
  const int copied = cuMemcpyDtoH(&value, word, sizeof value);
  std::printf("synchronize %d, query %d, copy %d, ", synchronized, queried, copied);
  usleep(1000000);
  std::printf("synchronize %d\n", cuCtxSynchronize());
  return 0;
}
