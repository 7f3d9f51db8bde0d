// A thread asks every two and a half T about the stream of a kernel, which ends when the host says so, after fifteen T. Nothing else happens.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(asks_rarely) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUstream only = lg::stream();
  CK(lg::launch_one(spin, only, stop.device));
  for (int i = 0; i < 6; ++i) {
    EXPECT(cuStreamQuery(only) == CUDA_ERROR_NOT_READY);
    lg::pass(2.5);
  }
  *stop.host = 1;
  CK(cuStreamSynchronize(only));
  std::puts("the kernel was stopped");
  return 0;
}
