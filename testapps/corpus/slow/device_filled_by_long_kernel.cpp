// A kernel with more blocks than the device holds takes one and a half T, as big kernels do, and the host waits for a small one that was
// launched after it on another stream.
// expect: slow or none
// card: yes
#include "../corpus.hpp"

SCENARIO(device_filled_by_long_kernel) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), step = lg::function(code, "step");
  const CUstream fills = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuCtxSynchronize());
  CUdeviceptr flag = stop.device;
  void* parameters[] = {&flag};
  int multiprocessors = 0;
  CK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  // The kernel ends when the word is set; the delay on the host stands for the kernel's running time.
  CK(cuLaunchKernel(fill, multiprocessors * 2, 1, 1, 1024, 1, 1, 0, fills, parameters, nullptr));
  CK(lg::launch_one(step, work, counter.device));
  std::thread over([&] {
    lg::pass(1.5);
    *stop.host = 1;
  });
  CK(cuStreamSynchronize(work));
  over.join();
  std::puts("the small one is done");
  return 0;
}
