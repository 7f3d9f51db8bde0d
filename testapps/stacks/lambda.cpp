// A driver call in a lambda that a std::thread runs, through a template and a function that is put in place of its call.
//
// hangs in cuStreamSynchronize: synchronize (inlined) <- the lambda <- the thread's start
// build: -fomit-frame-pointer
#include "stuck.h"

#include <cstdio>
#include <thread>

namespace work {

template <typename Stream>
__attribute__((always_inline)) inline int synchronize(Stream stream) {
  return cuStreamSynchronize(stream) == CUDA_SUCCESS ? 0 : 1;  // the call
}

struct Worker {
  CUcontext context;
  CUstream stream;

  __attribute__((noinline)) int run(int more) const {
    return synchronize(stream) + more;  // run
  }
};

}  // namespace work

int main() {
  const work::Worker worker{stuck_context(), stuck_stream()};
  int answer = 1;
  std::thread thread([&] {
    stuck_check(cuCtxSetCurrent(worker.context));
    answer = worker.run(1);  // lambda
  });
  thread.join();
  std::printf("%d\n", answer);
  return answer;
}
