// A kernel of a second and a half, or of the milliseconds that the first argument has, and a host that waits for it: slow, and nothing
// is wrong.
//
// bare:    completes, prints "slow kernel done"
// guarded: completes, same output, no verdict at the default threshold
// off:     completes, no verdict
#include <cstdio>
#include <cstdlib>

#include "../common/image.hpp"
#include "../common/session.hpp"

int main(int argc, char** argv) {
  const unsigned long long milliseconds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1500;
  lg::open_session();
  const auto code = lg::image("job");
  CUlibrary library;
  CUkernel busy;
  CUstream stream;
  CK(cuLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuLibraryGetKernel(&busy, library, "busy"));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CK(lg::launch_one(reinterpret_cast<CUfunction>(busy), stream, milliseconds * 1'000'000));
  CK(cuStreamSynchronize(stream));
  std::puts("slow kernel done");
  CK(cuStreamDestroy(stream));
  CK(cuLibraryUnload(library));
  return 0;
}
