// What the simulated NCCL promises of each call, with the ranks of its communicators in one process. It prints `as expected`, bare and
// guarded alike, or ends with what was not.
//
//   nccl_calls          all of it
//   nccl_calls submit   two all-reduces of two ranks, for a log of the driver calls
//   nccl_calls cost     the nanoseconds of a call of an all-reduce of one rank, in place, which submits nothing: with NCCL's own library too
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <thread>

#include "session.hpp"

namespace {

#define NK(call) EXPECT((call) == ncclSuccess)

constexpr int kDevices[4] = {0, 0, 0, 0};

CUstream new_stream() {
  CUstream stream = nullptr;
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

// What is in flight may end for so long.
bool ends(CUstream stream, unsigned milliseconds = 10000) {
  for (; milliseconds > 0; --milliseconds) {
    if (cuStreamQuery(stream) == CUDA_SUCCESS) return true;
    usleep(1000);
  }
  return false;
}
bool hangs(CUstream stream) { return !ends(stream, 200); }

// Two ranks, with a stream each.
struct Two {
  ncclComm_t comm[2] = {};
  CUstream stream[2] = {new_stream(), new_stream()};

  Two() { NK(ncclCommInitAll(comm, 2, kDevices)); }
  void abort() {
    for (const ncclComm_t one : comm) NK(ncclCommAbort(one));
    for (const CUstream one : stream) EXPECT(ends(one));
  }
  void destroy() {
    for (const ncclComm_t one : comm) NK(ncclCommDestroy(one));
  }
  ncclResult_t reduce(int rank, size_t count = 8, ncclDataType_t type = ncclFloat32, ncclRedOp_t op = ncclSum) {
    return ncclAllReduce(nullptr, nullptr, count, type, op, comm[rank], stream[rank]);
  }
};

void says_what_it_is() {
  int version = 0, count = 0, rank = -1, device = -1;
  NK(ncclGetVersion(&version));
  EXPECT(version == NCCL_VERSION_CODE);
  Two two;
  NK(ncclCommCount(two.comm[1], &count));
  NK(ncclCommUserRank(two.comm[1], &rank));
  NK(ncclCommCuDevice(two.comm[1], &device));
  EXPECT(count == 2 && rank == 1 && device == 0);
  EXPECT(ncclGetErrorString(ncclInvalidUsage) != nullptr);
  EXPECT(ncclCommCount(nullptr, &count) == ncclInvalidArgument);
  EXPECT(ncclBroadcast(nullptr, nullptr, 1, ncclInt8, 2, two.comm[0], two.stream[0]) == ncclInvalidArgument);
  EXPECT(std::strlen(ncclGetLastError(two.comm[0])) > 0);
  EXPECT(ncclGroupEnd() == ncclInvalidUsage);
  two.destroy();
}

void collectives_end_when_all_have_launched_them() {
  Two two;
  NK(two.reduce(0));
  EXPECT(hangs(two.stream[0]));
  NK(two.reduce(1));
  EXPECT(ends(two.stream[0]) && ends(two.stream[1]));
  for (int rank : {1, 0}) {
    NK(ncclBcast(nullptr, 8, ncclInt32, 1, two.comm[rank], two.stream[rank]));
    NK(ncclReduce(nullptr, nullptr, 8, ncclInt32, ncclMax, 1, two.comm[rank], two.stream[rank]));
    NK(ncclAllGather(nullptr, nullptr, 8, ncclInt32, two.comm[rank], two.stream[rank]));
    NK(ncclReduceScatter(nullptr, nullptr, 8, ncclInt32, ncclMin, two.comm[rank], two.stream[rank]));
  }
  EXPECT(ends(two.stream[0]) && ends(two.stream[1]));
  two.destroy();
}

// What both ranks call, and whether it ends.
template <class Call>
void differ(Call call) {
  Two two;
  for (int rank : {0, 1}) NK(call(two, rank));
  EXPECT(hangs(two.stream[0]) && hangs(two.stream[1]));
  two.abort();
}

void collectives_that_differ_never_end() {
  differ([](Two& two, int rank) { return two.reduce(rank, rank == 0 ? 8 : 9); });
  differ([](Two& two, int rank) { return two.reduce(rank, 8, rank == 0 ? ncclInt32 : ncclFloat32); });
  differ([](Two& two, int rank) { return two.reduce(rank, 8, ncclFloat32, rank == 0 ? ncclSum : ncclMax); });
  differ([](Two& two, int rank) { return ncclBroadcast(nullptr, nullptr, 8, ncclInt8, rank, two.comm[rank], two.stream[rank]); });
  differ([](Two& two, int rank) {
    return rank == 0 ? two.reduce(0) : ncclAllGather(nullptr, nullptr, 8, ncclFloat32, two.comm[1], two.stream[1]);
  });
}

void transfers_end_in_pairs() {
  Two two;
  NK(ncclSend(nullptr, 8, ncclInt8, 1, two.comm[0], two.stream[0]));
  EXPECT(hangs(two.stream[0]));
  NK(ncclRecv(nullptr, 8, ncclInt8, 0, two.comm[1], two.stream[1]));
  EXPECT(ends(two.stream[0]) && ends(two.stream[1]));
  // Both ways at a time: in a group they end whatever their order, one after the other they do not.
  for (int rank : {0, 1}) {
    NK(ncclGroupStart());
    NK(ncclSend(nullptr, 8, ncclInt8, 1 - rank, two.comm[rank], two.stream[rank]));
    NK(ncclRecv(nullptr, 8, ncclInt8, 1 - rank, two.comm[rank], two.stream[rank]));
    NK(ncclGroupEnd());
  }
  EXPECT(ends(two.stream[0]) && ends(two.stream[1]));
  for (int rank : {0, 1}) {
    NK(ncclSend(nullptr, 8, ncclInt8, 1 - rank, two.comm[rank], two.stream[rank]));
    NK(ncclRecv(nullptr, 8, ncclInt8, 1 - rank, two.comm[rank], two.stream[rank]));
  }
  EXPECT(hangs(two.stream[0]) && hangs(two.stream[1]));
  two.abort();
}

void nothing_is_launched_before_the_outermost_group_ends() {
  Two two;
  NK(ncclGroupStart());
  NK(ncclGroupStart());
  NK(two.reduce(0));
  NK(two.reduce(0, 16));
  NK(ncclGroupEnd());
  EXPECT(ends(two.stream[0]));
  NK(ncclGroupEnd());
  EXPECT(hangs(two.stream[0]));
  NK(ncclGroupStart());
  NK(two.reduce(1));
  NK(two.reduce(1, 16));
  NK(ncclGroupEnd());
  EXPECT(ends(two.stream[0]) && ends(two.stream[1]));
  // A call that failed fails its group.
  NK(ncclGroupStart());
  NK(two.reduce(0));
  EXPECT(two.reduce(0, 8, ncclNumTypes) == ncclInvalidArgument);
  EXPECT(ncclGroupEnd() == ncclInvalidArgument);
  EXPECT(ends(two.stream[0]));
  two.destroy();
}

void ranks_of_one_color_are_split_off() {
  ncclComm_t four[4] = {}, part[4] = {};
  NK(ncclCommInitAll(four, 4, kDevices));
  const int colors[4] = {7, NCCL_SPLIT_NOCOLOR, 7, 0};
  for (int again = 0; again < 3; ++again) {
    NK(ncclGroupStart());
    for (int rank = 0; rank < 4; ++rank) NK(ncclCommSplit(four[rank], colors[rank], -rank, &part[rank], nullptr));
    NK(ncclGroupEnd());
    EXPECT(part[1] == nullptr);
    int count = 0, rank = -1;
    NK(ncclCommCount(part[3], &count));
    EXPECT(count == 1);
    for (int parent : {0, 2}) {
      NK(ncclCommCount(part[parent], &count));
      NK(ncclCommUserRank(part[parent], &rank));
      // By the keys, backwards.
      EXPECT(count == 2 && rank == (parent == 0 ? 1 : 0));
    }
    const CUstream stream[2] = {new_stream(), new_stream()};
    NK(ncclAllReduce(nullptr, nullptr, 8, ncclInt8, ncclSum, part[0], stream[0]));
    EXPECT(hangs(stream[0]));
    NK(ncclAllReduce(nullptr, nullptr, 8, ncclInt8, ncclSum, part[2], stream[1]));
    EXPECT(ends(stream[0]) && ends(stream[1]));
    for (const int of : {0, 2, 3}) NK(ncclCommDestroy(part[of]));
  }
  for (const ncclComm_t one : four) NK(ncclCommDestroy(one));
}

void a_communicator_that_does_not_block_is_in_progress_until_all_have_come() {
  ncclUniqueId id;
  NK(ncclGetUniqueId(&id));
  ncclConfig_t config = nccl_config();
  config.blocking = 0;
  ncclComm_t first = nullptr, second = nullptr;
  EXPECT(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  ncclResult_t state = ncclSuccess;
  usleep(50 * 1000);
  NK(ncclCommGetAsyncError(first, &state));
  EXPECT(state == ncclInProgress);
  NK(ncclCommInitRank(&second, 2, id, 1));
  while (state == ncclInProgress) NK(ncclCommGetAsyncError(first, &state));
  EXPECT(state == ncclSuccess);
  NK(ncclCommDestroy(first));
  NK(ncclCommDestroy(second));

  NK(ncclGetUniqueId(&id));
  EXPECT(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  NK(ncclCommAbort(first));

  config.magic = 0;
  EXPECT(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInvalidArgument);
}

void a_rank_waits_for_the_others_to_come() {
  ncclUniqueId id;
  NK(ncclGetUniqueId(&id));
  std::atomic<bool> has_come{false};
  CUcontext context = nullptr;
  CK(cuCtxGetCurrent(&context));
  ncclComm_t first = nullptr, second = nullptr;
  std::thread other([&] {
    CK(cuCtxSetCurrent(context));
    NK(ncclCommInitRank(&first, 2, id, 0));
    has_come = true;
  });
  usleep(100 * 1000);
  EXPECT(!has_come);
  NK(ncclCommInitRank(&second, 2, id, 1));
  other.join();
  NK(ncclCommDestroy(first));
  NK(ncclCommDestroy(second));
  // All have come: the id leads nowhere any more.
  EXPECT(ncclCommInitRank(&first, 2, id, 0) == ncclSystemError);
}

double cost() {
  constexpr int kRounds = 30, kCalls = 20000;
  ncclComm_t comm = nullptr;
  NK(ncclCommInitAll(&comm, 1, kDevices));
  const CUstream stream = new_stream();
  CUdeviceptr memory = 0;
  CK(cuMemAlloc(&memory, 4096));
  const auto buffer = reinterpret_cast<void*>(memory);
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < kCalls; ++call) NK(ncclAllReduce(buffer, buffer, 16, ncclFloat32, ncclSum, comm, stream));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kCalls);
  }
  NK(ncclCommDestroy(comm));
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  lg::open_session();
  if (count == 2 && std::strcmp(arguments[1], "submit") == 0) {
    Two two;
    for (int rank : {0, 1, 0, 1}) NK(two.reduce(rank));
    two.destroy();
    return 0;
  }
  if (count == 2 && std::strcmp(arguments[1], "cost") == 0) {
    std::printf("%.1f\n", cost());
    return 0;
  }
  says_what_it_is();
  collectives_end_when_all_have_launched_them();
  collectives_that_differ_never_end();
  transfers_end_in_pairs();
  nothing_is_launched_before_the_outermost_group_ends();
  ranks_of_one_color_are_split_off();
  a_communicator_that_does_not_block_is_in_progress_until_all_have_come();
  a_rank_waits_for_the_others_to_come();
  std::puts("as expected");
  return 0;
}
