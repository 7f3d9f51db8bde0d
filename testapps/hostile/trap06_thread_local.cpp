// Trap 6: a thread_local C++ object whose destructor launches and synchronizes, made before the thread's first driver call, so that it is
// destroyed after whatever the guard keeps for the thread.
//
// bare and guarded: prints the same line, exit 0.
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "image.hpp"
#include "session.hpp"

namespace {

CUcontext context;
CUfunction nothing;
CUstream stream;
std::atomic<int> late{0};

struct LaunchesWhenDestroyed {
  bool armed = false;
  ~LaunchesWhenDestroyed() {
    if (!armed) return;
    CK(lg::launch_one(nothing, stream));
    CK(cuStreamSynchronize(stream));
    ++late;
  }
};

thread_local LaunchesWhenDestroyed last_of_the_thread;

}  // namespace

int main() {
  context = lg::open_session().context;
  const auto code = lg::image("job");
  CUlibrary library;
  CUkernel kernel;
  CK(cuLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuLibraryGetKernel(&kernel, library, "nothing"));
  nothing = reinterpret_cast<CUfunction>(kernel);
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 50; ++i) {
    std::thread([] {
      last_of_the_thread.armed = true;
      CK(cuCtxSetCurrent(context));
      CK(lg::launch_one(nothing, stream));
    }).join();
  }
  std::printf("launches from destructors: %d\n", late.load());
  return 0;
}
