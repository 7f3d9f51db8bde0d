// Who waits for whom in this driver, for a program that asks: what is in flight, what each op waits for, and where calls stand.
//
// A program finds the functions by cuGetExportTable, under kWaitsTable; a real driver has no such table. It is plain data and callbacks, because the
// two sides are separate shared objects. An op has the tag of the thread that submitted it, so that the program knows its own work again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lgsim {

inline constexpr unsigned char kWaitsTable[16] = {0x4c, 0x67, 0x53, 0x69, 0x6d, 0x57, 0x61, 0x69, 0x74, 0x73, 0x46, 0x6f, 0x72, 0x57, 0x68, 0x6f};

struct SeenOp {
  enum class State : int {
    behind,   // for ops that have not completed
    no_room,  // a kernel for which the device has no room
    runs
  };
  uint64_t id;
  uint64_t tag;        // of its thread when it was submitted; 0 for threads that never set one
  int is_kernel;
  State state;
  const void *stream;  // a handle; null for what is in no stream
};

// A thread in a call that has come to a wait.
struct SeenThread {
  static constexpr size_t kMostHeld = 4;
  enum class For : int {
    nothing,      // it holds a context lock
    op,           // `id` is the op's
    room,         // in the queue of a stream whose oldest op is `id`
    context_lock  // `id` is the lock's
  };
  int thread;
  For what;
  uint64_t id;
  uint64_t held[kMostHeld];  // the context locks that it holds, alone or with others; 0 where there is none
};

// Nothing starts, ends or is submitted during the calls, which must not call the driver.
struct LookAtWaits {
  void *user;
  void (*op)(void *user, const SeenOp *op);
  void (*waits)(void *user, uint64_t op, uint64_t for_op);
  void (*thread)(void *user, const SeenThread *thread);
};

struct WaitsTable {
  size_t bytes;
  void (*set_tag)(uint64_t tag);
  // How many ops were submitted and have completed so far: as long as it stays the same, so does what was seen of ops.
  uint64_t (*look)(const LookAtWaits *look);
};

// The wait of a thread, while this is there.
class HostWait {
 public:
  HostWait(SeenThread::For what, const void *subject);
  ~HostWait();
  HostWait(const HostWait &) = delete;
  HostWait &operator=(const HostWait &) = delete;
};
void context_lock_taken(const void *lock);
void context_lock_left(const void *lock);
uint64_t thread_tag();
void set_thread_tag(uint64_t tag);
void each_waiting_thread(void (*see)(void *user, const SeenThread *thread), void *user);

}  // namespace lgsim
