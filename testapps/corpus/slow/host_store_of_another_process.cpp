// A stream waits for a word of memory that another process, which never uses the driver, stores after five T. The main thread waits for a host
// function behind the wait, and no thread is in a call.
// expect: none
// card: yes
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../corpus.hpp"

SCENARIO(host_store_of_another_process) {
  static lg::Gate called;
  void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  const pid_t child = fork();
  if (child == 0) {
    lg::pass(5);
    *static_cast<volatile int*>(shared) = 1;
    _exit(0);
  }
  CUdeviceptr word;
  lg::open_session();
  CK(cuMemHostRegister(shared, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
  CK(cuMemHostGetDevicePointer(&word, shared, 0));
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  const auto opens = [](void*) {
    const std::lock_guard<std::mutex> hold(called.mutex);
    called.open = true;
    called.opened.notify_all();
  };
  CK(cuLaunchHostFunc(waits, opens, nullptr));
  lg::wait_at(called);
  waitpid(child, nullptr, 0);
  std::puts("the other process stored it");
  return 0;
}
