// One of two ranks that wait for each other by values in memory that both have, and a synchronize.
//
//   RANK=N shared_memory FILE MEMORY FAULT
//
//   MEMORY
//     host       the file, registered with the driver
//     device     rank 0's, which rank 1 opens by its handle
//   FAULT
//     none       each writes the word for which the other waits, and then waits for its own
//     crossed    each waits for its own, and writes the other's behind that
//     late       the same, but each host waits before it submits the write
//     unwritten  rank 1 sleeps instead
//     behind     rank 1 writes behind a kernel that does not end
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../common/image.hpp"
#include "../common/session.hpp"
#include "../common/shared.hpp"

namespace {

struct Shared {
  cuuint32_t before[1024];
  cuuint32_t words[2];
  CUipcMemHandle memory;
  std::atomic<unsigned> come;
};

// A pipe would do; the file is there already.
void meet(Shared* shared, unsigned all) {
  for (shared->come.fetch_add(1); shared->come < all;) usleep(1000);
}

CUdeviceptr words_of(Shared* shared, const std::string& memory, unsigned rank) {
  CUdeviceptr words = 0;
  if (memory != "device") {
    CK(cuMemHostRegister(shared, sizeof(Shared), CU_MEMHOSTREGISTER_DEVICEMAP));
    CK(cuMemHostGetDevicePointer(&words, shared->words, 0));
  } else if (rank == 0) {
    CK(cuMemAlloc(&words, 1 << 20));
    CK(cuMemsetD32(words, 0, 2));
    CK(cuCtxSynchronize());
    CK(cuIpcGetMemHandle(&shared->memory, words));
  }
  meet(shared, 2);
  if (memory == "device" && rank == 1) CK(cuIpcOpenMemHandle(&words, shared->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  return words;
}

}  // namespace

int main(int count, char** arguments) {
  const char* number = std::getenv("RANK");
  if (count != 4 || number == nullptr) {
    std::fputs("usage: RANK=N shared_memory FILE MEMORY FAULT\n", stderr);
    return 2;
  }
  const unsigned rank = static_cast<unsigned>(std::atoi(number));
  const std::string memory = arguments[2], fault = arguments[3];
  Shared* const shared = lg::share<Shared>(arguments[1]);
  lg::open_session(static_cast<int>(rank));
  CUstream stream;
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr words = words_of(shared, memory, rank), own = words + 4 * rank, others = words + 4 * (1 - rank);
  const auto code = lg::image("corpus");
  CUmodule loaded;
  CUfunction spin;
  CK(cuModuleLoadData(&loaded, code.data()));
  CK(cuModuleGetFunction(&spin, loaded, "spin_until"));
  const lg::MappedWord never = lg::mapped_word();
  meet(shared, 4);
  const auto writes = [&] { CK(cuStreamWriteValue32(stream, others, 1, 0)); };
  const auto waits = [&] { CK(cuStreamWaitValue32(stream, own, 1, CU_STREAM_WAIT_VALUE_EQ)); };
  if (fault == "unwritten" && rank == 1) pause();
  if (fault == "behind" && rank == 1) CK(lg::launch_one(spin, stream, never.device));
  if (fault == "crossed" || fault == "late") {
    waits();
    if (fault == "late") CK(cuStreamSynchronize(stream));
    writes();
  } else {
    writes();
    waits();
  }
  CK(cuStreamSynchronize(stream));
  std::printf("rank %u: both were written\n", rank);
  // What one rank has opened, the other keeps until both are done.
  meet(shared, 6);
  return 0;
}
