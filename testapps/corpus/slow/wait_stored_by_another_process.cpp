// A stream waits for a word of shared memory that another process, which never uses the driver, stores after one and a half T.
// expect: slow
// card: yes
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../corpus.hpp"

SCENARIO(wait_stored_by_another_process) {
  void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  int go[2];
  EXPECT(pipe(go) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    if (read(go[0], &byte, 1) != 1) _exit(1);
    lg::pass(1.5);
    *static_cast<volatile int*>(shared) = 1;
    _exit(0);
  }
  lg::open_session();
  CUdeviceptr word;
  CK(cuMemHostRegister(shared, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
  CK(cuMemHostGetDevicePointer(&word, shared, 0));
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT(write(go[1], "g", 1) == 1);
  CK(cuStreamSynchronize(waits));
  waitpid(child, nullptr, 0);
  std::puts("the other process stored it");
  return 0;
}
