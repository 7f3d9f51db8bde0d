// A copy between two contexts waits for a kernel of the one that is not current, which ends after two T.
// expect: slow
// card: no, because two contexts of one device take turns on a card
#include "../corpus.hpp"

SCENARIO(peer_copy_behind_long_kernel) {
  const lg::Session session = lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr here = lg::device_words(1024);
  CK(lg::launch_one(busy, lg::stream(), lg::pace_ns(2)));
  CUcontext second;
  CK(cuCtxCreate(&second, nullptr, 0, session.device));
  const CUdeviceptr there = lg::device_words(1024);
  CK(cuMemcpyPeer(here, session.context, there, second, 4096));
  CK(cuCtxSynchronize());
  std::puts("the copy was made");
  return 0;
}
