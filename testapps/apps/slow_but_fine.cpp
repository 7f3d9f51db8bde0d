// A kernel of a second and a half and a host that waits for it: slow, and nothing is wrong.
//
// bare:    completes, prints "slow kernel done"
// guarded: completes, same output, no verdict at the default threshold
// off:     completes, no verdict
#include <cstdio>

#include "../common/image.hpp"
#include "../common/session.hpp"

int main() {
  lg::open_session();
  const auto code = lg::image("job");
  CUlibrary library;
  CUkernel busy;
  CUstream stream;
  CK(cuLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuLibraryGetKernel(&busy, library, "busy"));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CK(lg::launch_one(reinterpret_cast<CUfunction>(busy), stream, 1'500'000'000ull));
  CK(cuStreamSynchronize(stream));
  std::puts("slow kernel done");
  CK(cuStreamDestroy(stream));
  CK(cuLibraryUnload(library));
  return 0;
}
