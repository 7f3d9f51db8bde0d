// A producer waits until a slot is empty, and a consumer empties it. The memory is zero at first, so that the producer's first wait is
// satisfied before anybody writes: that the stream stands is the kernel's doing, and later waits come behind their writes.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(slots_empty_at_first) {
  lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUdeviceptr slot = lg::device_words(1);
  const CUstream producer = lg::stream(), consumer = lg::stream();
  for (int i = 0; i < 3; ++i) {
    CK(cuStreamWaitValue32(producer, slot, 0, CU_STREAM_WAIT_VALUE_EQ));
    CK(lg::launch_one(busy, producer, lg::ms(20)));
    CK(cuStreamWriteValue32(producer, slot, 1, 0));
    CK(cuStreamWaitValue32(consumer, slot, 1, CU_STREAM_WAIT_VALUE_EQ));
    CK(lg::launch_one(busy, consumer, lg::ms(20)));
    CK(cuStreamWriteValue32(consumer, slot, 0, 0));
  }
  CK(cuCtxSynchronize());
  std::puts("all slots went through");
  return 0;
}
