// A stream waits for a word in the middle of a block that another stream copies as rows of a two-dimensional one, behind its event on a third
// stream where a host function sleeps for one and a half T.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_covered_by_copied_block) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(64), source = lg::device_words(64);
  CK(cuMemsetD32(source, 1, 64));
  CK(cuCtxSynchronize());
  const CUstream waits = lg::stream(), hosts = lg::stream(), copies = lg::stream();
  const CUevent event = lg::event();
  CK(cuStreamWaitValue32(waits, words + 4 * 17, 1, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuLaunchHostFunc(hosts, [](void*) { lg::pass(1.5); }, nullptr));
  CK(cuEventRecord(event, hosts));
  CK(cuStreamWaitEvent(copies, event, 0));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = source;
  copy.dstDevice = words;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = 64;
  copy.Height = 4;
  CK(cuMemcpy2DAsync(&copy, copies));
  CK(cuStreamSynchronize(waits));
  std::puts("copied");
  return 0;
}
