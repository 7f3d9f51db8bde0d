// A kernel that filled the device is long done; its stream was destroyed, and nobody asked. Then a kernel of one and a half T runs on another
// stream and is waited for.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(filled_by_a_destroyed_stream) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), busy = lg::function(code, "busy_for");
  const CUstream passing = lg::stream(), work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuCtxSynchronize());
  CUdeviceptr flag = stop.device;
  void* parameters[] = {&flag};
  int multiprocessors = 0;
  CK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  *stop.host = 1;
  CK(cuLaunchKernel(fill, multiprocessors * 2, 1, 1, 1024, 1, 1, 0, passing, parameters, nullptr));
  CK(cuStreamDestroy(passing));
  lg::pass(0.3);
  CK(lg::launch_one(busy, work, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(work));
  std::puts("done");
  return 0;
}
