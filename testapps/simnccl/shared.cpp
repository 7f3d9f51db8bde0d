#include "shared.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace simnccl {
namespace {

// The largest pages there are (AArch64): a part of the file is mapped by itself.
constexpr uint64_t kPage = 64 << 10;
// Only pages that are written exist.
constexpr off_t kMostBytes = off_t{1} << 36;
// A part's address is a multiple of a page, which leaves room for what tells its split from others.
constexpr uint64_t kSplitNumber = kPage - 1;

struct Id {
  char name[8];
  uint64_t secret;
  int64_t process;
  int64_t file;
};
static_assert(sizeof(Id) <= NCCL_UNIQUE_ID_BYTES);
constexpr char kName[8] = "simnccl";

void* map_at(int file, uint64_t from, uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(from));
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

struct Memory::Header {
  uint64_t secret;
  int64_t process, file;
  std::atomic<uint64_t> free, first;
  std::atomic<unsigned> ranks;
};

Meeting::Meeting(void* memory, unsigned ranks)
    : memory_(memory), ranks_(ranks), members_(static_cast<NcclMember*>(memory)),
      sent_(reinterpret_cast<unsigned long long*>(members_ + ranks)),
      choices_(reinterpret_cast<Choice*>(sent_ + size_t{2} * ranks * ranks)),
      parts_(reinterpret_cast<std::atomic<uint64_t>*>(choices_ + size_t{2} * ranks)) {
  static_assert(sizeof(Choice) % 4 == 0 && sizeof(std::atomic<uint64_t>) == 8);
}

size_t Meeting::bytes(unsigned ranks) {
  const size_t n = ranks;
  const size_t used = n * sizeof(NcclMember) + 2 * n * n * sizeof(uint64_t) + 2 * n * (sizeof(Choice) + sizeof(uint64_t));
  return (used + kPage - 1) / kPage * kPage;
}

bool Meeting::arrive(unsigned rank) const { return __atomic_exchange_n(&members_[rank].arrived, 1, __ATOMIC_ACQ_REL) == 0; }

bool Meeting::all_have_arrived() const {
  return std::all_of(members_, members_ + ranks_, [](NcclMember& member) { return __atomic_load_n(&member.arrived, __ATOMIC_ACQUIRE) != 0; });
}

ncclResult_t Memory::make(ncclUniqueId& id) {
  Id made = {};
  std::memcpy(made.name, kName, sizeof kName);
  made.process = getpid();
  made.file = memfd_create("simnccl", MFD_CLOEXEC);
  if (made.file < 0 || getrandom(&made.secret, sizeof made.secret, 0) != sizeof made.secret) return ncclSystemError;
  const int file = static_cast<int>(made.file);
  void* memory = ftruncate(file, kMostBytes) == 0 ? map_at(file, 0, kPage) : nullptr;
  if (memory == nullptr) {
    close(file);
    return ncclSystemError;
  }
  auto* header = new (memory) Header{};
  header->process = made.process;
  header->file = made.file;
  header->free = kPage;
  header->secret = made.secret;
  munmap(memory, kPage);
  std::memset(&id, 0, sizeof id);
  std::memcpy(id.internal, &made, sizeof made);
  return ncclSuccess;
}

std::shared_ptr<Memory> Memory::open(const ncclUniqueId& id) {
  Id made;
  std::memcpy(&made, id.internal, sizeof made);
  if (std::memcmp(made.name, kName, sizeof kName) != 0) return nullptr;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(made.process), static_cast<long long>(made.file));
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  // Another file may have the number by now, and be shorter than a page.
  uint64_t secret = 0;
  void* header = pread(file, &secret, sizeof secret, 0) == sizeof secret && secret == made.secret ? map_at(file, 0, kPage) : nullptr;
  if (header == nullptr) {
    close(file);
    return nullptr;
  }
  return std::shared_ptr<Memory>(new Memory(file, static_cast<Header*>(header)));
}

Memory::~Memory() {
  munmap(header_, kPage);
  close(file_);
}

uint64_t Memory::take(unsigned ranks) { return header_->free.fetch_add(Meeting::bytes(ranks)); }

uint64_t Memory::first_part(unsigned ranks) {
  unsigned said = 0;
  if (!header_->ranks.compare_exchange_strong(said, ranks) && said != ranks) return 0;
  uint64_t part = header_->first;
  if (part != 0) return part;
  const uint64_t taken = take(ranks);
  return header_->first.compare_exchange_strong(part, taken) ? taken : part;
}

uint64_t Memory::part(std::atomic<uint64_t>& known, uint32_t number, unsigned ranks) {
  // Never 0, which is what memory holds at first.
  const uint64_t tag = number % kSplitNumber + 1;
  uint64_t part = known;
  while ((part & kSplitNumber) != tag) {
    const uint64_t taken = take(ranks) | tag;
    if (known.compare_exchange_strong(part, taken)) part = taken;
  }
  return part & ~kSplitNumber;
}

std::unique_ptr<Meeting> Memory::map(uint64_t part, unsigned ranks) const {
  void* memory = map_at(file_, part, Meeting::bytes(ranks));
  return memory == nullptr ? nullptr : std::make_unique<Meeting>(memory, ranks);
}

void Memory::close_original() const {
  // Once: another file may have the number afterwards.
  int64_t file = header_->file;
  if (header_->process != getpid() || file < 0) return;
  if (__atomic_compare_exchange_n(&header_->file, &file, -1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) close(static_cast<int>(file));
}

bool wait_until(const std::function<bool()>& is_true, const std::function<bool()>& is_aborted) {
  long nanoseconds = 50 * 1000;
  while (!is_true()) {
    if (is_aborted()) return false;
    const timespec pause{0, nanoseconds};
    nanosleep(&pause, nullptr);
    if (nanoseconds < 2 * 1000 * 1000) nanoseconds += nanoseconds / 2;
  }
  return true;
}

}  // namespace simnccl
