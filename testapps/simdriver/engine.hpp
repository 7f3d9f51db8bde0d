// The simulated device: what has been submitted, in which order it may run, and on which host thread it does.
//
// Protocol. Everything submitted is an Op. An op starts when every op it depends on has completed, and, if it is a kernel, when
// the device has room for a block of it. Stream order, the legacy stream, events, barriers and graph edges are all expressed as
// such dependencies. Streams share the hardware queues of their context, and take the next one whenever they begin to be busy: on an H200 streams that had been
// idle shared no queue by the order of their making. A kernel is given to the device behind the kernels that came before it in its queue. One that waits for
// something keeps the later ones of its queue waiting, and one that runs does not. All op state is guarded by one mutex, engine_mutex(), which is never held
// while an op runs, while a caller waits, or while anything but op state is touched.
//
// Ops that take no time complete on the thread that made them ready. The others run on worker threads, as many as ops run at the
// same time; workers sleep when there is nothing to run. They are detached and their state is never destroyed, so that a
// process may exit while a kernel spins.
//
// Free running: an op runs on the submitting thread, at once, and nothing is ever in flight.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "kernel_table.h"
#include "waits.hpp"

namespace lgsim {

struct Context;
struct Stream;
struct Op;
struct Function;
using OpRef = std::shared_ptr<Op>;
using StreamRef = std::shared_ptr<Stream>;

struct Op {
  enum class Kind {
    marker,  // completes as soon as what it depends on has completed
    quick,   // runs on whichever thread makes it ready; must not wait for anything
    work,    // runs on a worker thread
    kernel,  // as work, once the device has room
    wait     // as work; free running, it is taken as satisfied
  };
  explicit Op(Kind k) : kind(k) {}
  Op(Kind k, std::function<void()> r) : kind(k), run(std::move(r)) {}

  const Kind kind;
  std::function<void()> run;

  // Kernels: what a block takes of the device, and how many blocks there are.
  uint64_t threads_per_block = 0;
  uint64_t blocks = 0;
  bool all_blocks_at_once = false;
  const Function *function = nullptr;  // while it runs, `run` keeps it; null inside other work
  lgsim_grid grid;

  // Guarded by engine_mutex().
  uint64_t tag = 0;  // waits.hpp
  Context *context = nullptr;
  StreamRef stream;  // null for barriers, markers and the inside of graphs
  unsigned unmet = 0;
  bool done = false;
  int64_t completed_ns = 0;
  uint64_t threads_taken = 0;
  bool takes_room = false;  // in its stream's queue
  bool dispatched = false;  // its hardware queue goes on behind it
  std::vector<OpRef> behind;  // the next kernel of its hardware queue, until this one is dispatched
  std::vector<OpRef> dependents;
  std::list<OpRef>::iterator unfinished_at;
};

std::mutex &engine_mutex();

inline OpRef make_op(Op::Kind kind, std::function<void()> run = {}) { return std::make_shared<Op>(kind, std::move(run)); }

// Appends to a stream. Waits, without the engine's mutex, while the stream's queue is full; markers need no room in it.
// `also` are further dependencies. False where the wait ended only because all work was lost.
bool submit(const StreamRef &stream, const OpRef &op, const std::vector<OpRef> &also = {});

// One step of several that a stream runs as one: `after` are indices of earlier steps. `end` is appended to the stream, every step
// depends on what the stream had before, and on `previous`, which becomes `end`.
struct Step {
  OpRef op;
  std::vector<size_t> after;
  OpRef also;  // another op it depends on, or null
};
void submit_steps(const StreamRef &stream, const std::vector<Step> &steps, const OpRef &end, OpRef &previous);

// A marker that completes when all that is in flight in the context now has completed. `run`, of no time, is done then.
OpRef mark_context(Context &context, std::function<void()> run = {});
// A marker for what a synchronize of the stream waits for; for the legacy stream that is every blocking stream, too.
OpRef mark_stream(const StreamRef &stream);
// Nothing submitted to the context from now on starts until all that is in flight in it now has completed, which is when the
// returned op does.
OpRef raise_barrier(Context &context);

// What WaitsTable::look does.
uint64_t look_at_waits(const LookAtWaits *look);

bool is_done(const OpRef &op);
// Returns once the op is done, or the device's work is lost.
void wait_until_done(const OpRef &op);
// The same on a processor.
void look_until_done(const OpRef &op);

// A kernel that holds a part of the device.
struct Running {
  const Context *context;
  const Function *function;
  lgsim_grid grid;
  uint64_t threads_taken;
};
// Calls `look` with the kernels that run, and those that have found no room; nothing starts or ends meanwhile.
void look_at_kernels(const std::function<void(const std::vector<Running> &run, const std::vector<Running> &wait)> &look);

// After a GPU core dump or an exception of the device the work in flight is lost, and so is what is submitted later: waits end, nothing starts, nothing completes. Host
// threads that run kernels go on, unseen.
void lose_all_work(CUresult error);
bool work_is_lost();
// With what error; success while nothing is lost.
CUresult error_of_lost_work();

constexpr unsigned kQueueDepth = 1022;  // ops a stream takes before a submission waits for room

// The size of the device that kernels share.
constexpr uint64_t kMultiprocessors = 132;
constexpr uint64_t kThreadsPerMultiprocessor = 2048;
constexpr uint64_t kBlocksPerMultiprocessor = 32;

int64_t now_ns();

// True on a thread that runs a host function or a stream callback, where no call into the driver is permitted.
bool &in_host_function();
// Runs a host function or a stream callback as the real driver does: of one context (null: of none) one at a time, on a thread that has
// the program's name and not one of the driver's.
void run_host_function(Context *context, const std::function<void()> &call);

}  // namespace lgsim
