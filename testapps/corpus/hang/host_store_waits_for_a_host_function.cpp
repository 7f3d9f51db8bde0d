// A stream waits for a word of the host's memory, which a thread stores to once the main thread has let it. The main thread waits for a host function
// that stands behind the wait. No thread is in a call.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include "../corpus.hpp"

static void open(lg::Gate& gate) {
  const std::lock_guard<std::mutex> hold(gate.mutex);
  gate.open = true;
  gate.opened.notify_all();
}

SCENARIO(host_store_waits_for_a_host_function) {
  static lg::Gate called, stores;
  alignas(4096) static char page[4096];
  CUdeviceptr word;
  lg::open_session();
  CK(cuMemHostRegister(page, sizeof page, CU_MEMHOSTREGISTER_DEVICEMAP));
  CK(cuMemHostGetDevicePointer(&word, page, 0));
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuLaunchHostFunc(waits, [](void*) { open(called); }, nullptr));
  std::thread writer([&] {
    lg::wait_at(stores);
    *reinterpret_cast<volatile int*>(page) = 1;
  });
  lg::wait_at(called);
  open(stores);
  writer.join();
  std::puts("the value was stored");
  return 0;
}
