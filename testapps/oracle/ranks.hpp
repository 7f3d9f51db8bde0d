// A rank's side of a job: its communicators, by the simulated NCCL beside the player, and the steps that call it.
//
// Must not know of the guard.
#pragma once
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <string>
#include <vector>

#include "../common/image.hpp"
#include "../common/shared.hpp"
#include "../simnccl/nccl.h"

namespace lg {

constexpr size_t kCommunicators = 4;

// The unique ids, in memory that all ranks have.
struct Meeting {
  struct Place {
    std::atomic<bool> has_id;
    ncclUniqueId id;
  };
  Place places[kCommunicators];
};

class Ranks {
 public:
  // `members` has the ranks of each communicator, as "0,1,3".
  void are(int rank, const char* shared, std::vector<std::string> members) {
    rank_ = rank;
    shared_ = shared;
    members_ = std::move(members);
  }

  bool is_job() const { return shared_ != nullptr; }

  // Makes the communicators, one after the other. Each is there when all of its ranks have come.
  void come_together() {
    if (!is_job()) return;
    open();
    auto* const meeting = share<Meeting>(shared_);
    for (size_t at = 0; at < members_.size(); at++) make(meeting->places[at], members_[at]);
  }

  static bool has(const std::string& what) { return what == "all_reduce" || what == "send" || what == "receive" || what == "exchange"; }

  // A rank that is no number of the communicator's is what NCCL refuses.
  ncclResult_t call(const std::string& what, size_t at, long to, long from, size_t count, void* memory, CUstream stream) const {
    const Communicator& of = communicators_.at(at);
    if (what == "all_reduce") return nccl_.AllReduce(memory, memory, count, ncclFloat32, ncclSum, of.comm, stream);
    ncclResult_t r = ncclSuccess;
    if (what == "exchange") r = nccl_.GroupStart();
    if (what != "receive" && r == ncclSuccess) r = nccl_.Send(memory, count, ncclFloat32, of.number(to), of.comm, stream);
    if (what != "send" && r == ncclSuccess) r = nccl_.Recv(memory, count, ncclFloat32, of.number(from), of.comm, stream);
    return what == "exchange" && r == ncclSuccess ? nccl_.GroupEnd() : r;
  }

 private:
  struct Communicator {
    std::vector<int> members;
    ncclComm_t comm = nullptr;
    int number(long rank) const {
      const auto found = std::find(members.begin(), members.end(), rank);
      return found == members.end() ? -1 : static_cast<int>(found - members.begin());
    }
  };

  struct Nccl {
#define LG_RANKS_NCCL(X) X(GetUniqueId) X(CommInitRank) X(AllReduce) X(Send) X(Recv) X(GroupStart) X(GroupEnd)
#define LG_RANKS_MEMBER(name) decltype(&nccl##name) name;
    LG_RANKS_NCCL(LG_RANKS_MEMBER)
  };

  void open() {
    void* const library = dlopen((folder_of_executable() + "/../simnccl/libnccl.so.2").c_str(), RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::_Exit(4);
    }
#define LG_RANKS_FIND(name) nccl_.name = reinterpret_cast<decltype(nccl_.name)>(dlsym(library, "nccl" #name));
    LG_RANKS_NCCL(LG_RANKS_FIND)
  }

  void make(Meeting::Place& place, const std::string& members) {
    Communicator made;
    std::istringstream in(members);
    for (std::string member; std::getline(in, member, ',');) made.members.push_back(std::stoi(member));
    const int number = made.number(rank_);
    if (number == 0) {
      need(nccl_.GetUniqueId(&place.id));
      place.has_id = true;
    }
    if (number >= 0) {
      while (!place.has_id) usleep(2000);
      need(nccl_.CommInitRank(&made.comm, static_cast<int>(made.members.size()), place.id, number));
    }
    communicators_.push_back(made);
  }

  static void need(ncclResult_t result) {
    if (result == ncclSuccess) return;
    std::fprintf(stderr, "NCCL: %d\n", static_cast<int>(result));
    std::_Exit(4);
  }

  int rank_ = 0;
  const char* shared_ = nullptr;
  std::vector<std::string> members_;
  Nccl nccl_{};
  std::vector<Communicator> communicators_;
};

}  // namespace lg
