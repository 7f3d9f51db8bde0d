// A communicator that does not block: the thread asks until it is ready.
//
//   nccl_polls HOW
//
//   init    the second rank never comes
//   split   it never takes part in a split
//   late    it comes after four seconds, and the program ends
#include <nccl.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "session.hpp"

namespace {

void wait_until_ready(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    usleep(1000);
  }
  EXPECT(state == ncclSuccess);
}

}  // namespace

int main(int count, char** arguments) {
  EXPECT(count == 2);
  const char* how = arguments[1];
  lg::open_session();
  ncclUniqueId id;
  ncclConfig_t config = nccl_config();
  config.blocking = 0;
  EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t first = nullptr, second = nullptr, part = nullptr;
  EXPECT(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  std::thread other([&] {
    if (std::strcmp(how, "late") == 0) sleep(4);
    if (std::strcmp(how, "init") != 0) EXPECT(ncclCommInitRank(&second, 2, id, 1) == ncclSuccess);
  });
  wait_until_ready(first);
  other.join();
  if (std::strcmp(how, "split") == 0) {
    EXPECT(ncclCommSplit(first, 0, 0, &part, &config) == ncclInProgress);
    wait_until_ready(part);
  }
  std::puts("ready");
  return 0;
}
