// Retains the primary context a second time, as each CUDA runtime of a process does for itself, when libraries have come meanwhile:
// that is no start, and nothing is loaded at once because of it.
//
// bare:    completes, prints "retained twice"
// guarded: the same
#include <cstdio>

#include "../common/image.hpp"
#include "../common/session.hpp"

int main() {
  const lg::Session session = lg::open_session();
  const auto code = lg::image("job");
  for (int n = 0; n < 4; ++n) {
    CUlibrary library;
    CK(cuLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  CUcontext again;
  CK(cuDevicePrimaryCtxRetain(&again, session.device));
  std::puts(again == session.context ? "retained twice" : "another context");
  return 0;
}
