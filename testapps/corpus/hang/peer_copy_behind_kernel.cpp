// A kernel of one context never ends. With a second context current, memory is copied from that to the first by cuMemcpyPeer, which returns at once
// and is made behind the work of both; the thread that would end the kernel waits for the second context.
// expect: LG204 culprit=spin_until
// card: no, because two contexts of one device take turns on a card
#include "../corpus.hpp"

SCENARIO(peer_copy_behind_kernel) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUfunction spin = lg::function(lg::module("corpus"), "spin_until");
  const CUdeviceptr here = lg::device_words(1024);
  const CUstream resident = lg::stream(CU_STREAM_DEFAULT);
  CK(lg::launch_one(spin, resident, stop.device));
  CUcontext second;
  CK(cuCtxCreate(&second, nullptr, 0, session.device));
  const CUdeviceptr there = lg::device_words(1024);
  CK(cuMemcpyPeer(here, session.context, there, second, 4096));
  CK(cuCtxSynchronize());
  *stop.host = 1;
  std::puts("the copy was made");
  return 0;
}
