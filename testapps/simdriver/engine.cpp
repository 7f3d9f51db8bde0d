#include "engine.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <string>
#include <unordered_map>

#include "context.hpp"
#include "entry.hpp"
#include "loading.hpp"
#include "settings.hpp"

namespace lgsim {
namespace {

struct Worker {
  std::condition_variable wake;
  OpRef next;
};

struct Engine {
  std::mutex mutex;
  std::condition_variable progress;  // an op has completed
  unsigned waiting = 0;              // threads that wait for progress
  uint64_t moves = 0;                // ops submitted and completed
  std::vector<Worker *> idle;
  std::deque<OpRef> waiting_for_room;  // kernels that the device has no room for, oldest first
  uint64_t free_threads = kMultiprocessors * kThreadsPerMultiprocessor;
  std::atomic<CUresult> lost{CUDA_SUCCESS};  // by which error; written with the mutex held
};

Engine &engine() {
  static Engine *const e = new Engine;
  return *e;
}

uint64_t rounded_to_warps(uint64_t threads) { return (threads + 31) / 32 * 32; }

// Takes the kernel's share of the device; false when there is no room for it yet.
bool take_room(Op &kernel) {
  Engine &e = engine();
  const uint64_t block = std::max(rounded_to_warps(kernel.threads_per_block),
                                  kThreadsPerMultiprocessor / kBlocksPerMultiprocessor);
  const uint64_t needed = kernel.all_blocks_at_once ? kernel.blocks * block : block;
  if (e.free_threads < needed) return false;
  kernel.threads_taken = std::min(kernel.blocks, e.free_threads / block) * block;
  e.free_threads -= kernel.threads_taken;
  return true;
}

void *worker_main(void *argument);

void give_to_worker(OpRef op) {
  Engine &e = engine();
  if (!e.idle.empty()) {
    Worker *worker = e.idle.back();
    e.idle.pop_back();
    worker->next = std::move(op);
    worker->wake.notify_one();
    return;
  }
  auto *worker = new Worker;
  worker->next = std::move(op);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  // The program's signal handlers run on the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  pthread_create(&thread, &attributes, worker_main, worker);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

void complete(const OpRef &finished);
void release(std::vector<OpRef> &waiting);

// Every dependency has completed.
void start(const OpRef &op) {
  if (engine().lost) return;
  switch (op->kind) {
    case Op::Kind::marker:
      complete(op);
      return;
    case Op::Kind::quick:
      op->run();
      complete(op);
      return;
    case Op::Kind::kernel:
      if (take_room(*op))
        give_to_worker(op);
      else
        engine().waiting_for_room.push_back(op);
      op->dispatched = true;
      release(op->behind);
      return;
    case Op::Kind::work:
    case Op::Kind::wait:
      give_to_worker(op);
      return;
  }
}

// Something that these ops wait for is done. A chain of ops that become ready may be long: it is walked, not recursed into.
void release(std::vector<OpRef> &waiting) {
  static std::vector<OpRef> *const ready = new std::vector<OpRef>;
  static bool walking = false;
  for (OpRef &dependent : waiting)
    if (--dependent->unmet == 0) ready->push_back(std::move(dependent));
  waiting.clear();
  if (walking) return;
  walking = true;
  for (size_t i = 0; i < ready->size(); i++) {
    OpRef next = std::move((*ready)[i]);
    start(next);
  }
  ready->clear();
  walking = false;
}

void complete(const OpRef &finished) {
  Engine &e = engine();

  Op &op = *finished;
  op.done = true;
  e.moves++;
  op.completed_ns = now_ns();
  op.context->unfinished.erase(op.unfinished_at);
  if (op.stream) {
    op.stream->depth--;
    if (op.takes_room) op.stream->queued--;
    if (op.stream->last == finished) op.stream->last = nullptr;
    op.stream = nullptr;
  }
  if (op.threads_taken) {
    e.free_threads += op.threads_taken;
    op.threads_taken = 0;
    while (!e.waiting_for_room.empty() && take_room(*e.waiting_for_room.front())) {
      OpRef kernel = std::move(e.waiting_for_room.front());
      e.waiting_for_room.pop_front();
      give_to_worker(std::move(kernel));
    }
  }
  if (op.context->barrier == finished) op.context->barrier = nullptr;
  if (e.waiting) e.progress.notify_all();
  release(op.dependents);
}

void *worker_main(void *argument) {
  // Named as a thread of the real driver, so that the guard does not take it for one of the program's. By itself: another thread would have to
  // name it through /proc/self/task, and a process with an entry there takes the system long to clear away while its threads still leave.
  pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
  auto *self = static_cast<Worker *>(argument);
  Engine &e = engine();
  std::unique_lock<std::mutex> hold(e.mutex);
  for (;;) {
    while (!self->next) self->wake.wait(hold);
    OpRef op = std::move(self->next);
    self->next = nullptr;
    hold.unlock();
    op->run();
    op->run = nullptr;  // frees what it holds outside the mutex
    hold.lock();
    if (!e.lost) e.idle.push_back(self);  // before completing: what becomes ready may come back to this very worker
    if (!e.lost) complete(op);
    hold.unlock();
    op = nullptr;
    hold.lock();
  }
  return nullptr;
}

void depend(const OpRef &op, const OpRef &on) {
  if (!on || on->done) return;
  on->dependents.push_back(op);
  op->unmet++;
}

void add_unfinished(Context &context, const OpRef &op) {
  op->context = &context;
  op->tag = thread_tag();
  engine().moves++;
  context.unfinished.push_back(op);
  op->unfinished_at = std::prev(context.unfinished.end());
}

// What an op appended to the stream now has to wait for.
void depend_on_stream(const OpRef &op, Stream &stream) {
  Context &context = stream.context;
  depend(op, context.barrier);
  depend(op, stream.last);
  if (stream.legacy) {
    for (const StreamRef &other : context.streams)
      if (other->blocking()) depend(op, other->last);
  } else if (stream.blocking()) {
    depend(op, context.legacy->last);
  }
}

void forget_drained(Context &context) {
  auto &streams = context.streams;
  streams.erase(std::remove_if(streams.begin(), streams.end(),
                               [](const StreamRef &s) { return s->destroyed && s->depth == 0; }),
                streams.end());
}

void run_now(const OpRef &op) {
  if (op->run && op->kind != Op::Kind::wait) op->run();
  op->done = true;
  op->completed_ns = now_ns();
}

void append(const StreamRef &stream, const OpRef &op, bool takes_room) {
  add_unfinished(stream->context, op);
  op->stream = stream;
  op->takes_room = takes_room;
  if (!stream->depth++) stream->place = stream->context.places++;
  if (takes_room) stream->queued++;
  stream->last = op;
}

// The kernel comes behind the newest one of its hardware queue.
void enter_queue(const OpRef &kernel, Stream &stream) {
  std::vector<OpRef> &queues = stream.context.queues;
  queues.resize(hardware_queues());
  OpRef &newest = queues[stream.place % queues.size()];
  if (newest && !newest->dispatched) {
    newest->behind.push_back(kernel);
    kernel->unmet++;
  }
  newest = kernel;
}

// False where there is room only because all work is lost.
bool wait_for_room(std::unique_lock<std::mutex> &hold, Stream &stream) {
  Engine &e = engine();
  if (stream.queued < kQueueDepth) return true;
  const HostWait wait(SeenThread::For::room, &stream);
  e.waiting++;
  while (stream.queued >= kQueueDepth && !e.lost) e.progress.wait(hold);
  e.waiting--;
  return stream.queued < kQueueDepth;
}

}  // namespace

std::mutex &engine_mutex() { return engine().mutex; }

bool submit(const StreamRef &stream, const OpRef &op, const std::vector<OpRef> &also) {
  if (settings().free_running) {
    run_now(op);
    return true;
  }
  std::unique_lock<std::mutex> hold(engine().mutex);
  const bool takes_room = op->kind != Op::Kind::marker;
  const bool had_room = !takes_room || wait_for_room(hold, *stream);
  forget_drained(stream->context);
  depend_on_stream(op, *stream);
  for (const OpRef &other : also) depend(op, other);
  append(stream, op, takes_room);
  if (op->kind == Op::Kind::kernel) enter_queue(op, *stream);
  if (op->unmet == 0) start(op);
  return had_room;
}

void submit_steps(const StreamRef &stream, const std::vector<Step> &steps, const OpRef &end, OpRef &previous) {
  if (settings().free_running) {
    for (const Step &step : steps) run_now(step.op);
    return run_now(end);
  }
  std::unique_lock<std::mutex> hold(engine().mutex);
  wait_for_room(hold, *stream);
  for (const Step &step : steps) {
    add_unfinished(stream->context, step.op);
    depend_on_stream(step.op, *stream);
    depend(step.op, previous);
    depend(step.op, step.also);
    for (size_t before : step.after) depend(step.op, steps[before].op);
  }
  depend_on_stream(end, *stream);
  depend(end, previous);
  for (const Step &step : steps) depend(end, step.op);
  append(stream, end, true);
  previous = end;
  // Started only now: a step that completes at once must not be missed by one that is still to depend on it.
  std::vector<OpRef> ready;
  for (const Step &step : steps)
    if (step.op->unmet == 0) ready.push_back(step.op);
  if (end->unmet == 0) ready.push_back(end);
  for (const OpRef &op : ready) start(op);
}

OpRef mark_context(Context &context, std::function<void()> run) {
  OpRef marker = make_op(run ? Op::Kind::quick : Op::Kind::marker, std::move(run));
  if (settings().free_running) {
    run_now(marker);
    return marker;
  }
  std::unique_lock<std::mutex> hold(engine().mutex);
  for (const OpRef &op : context.unfinished) depend(marker, op);
  add_unfinished(context, marker);
  if (marker->unmet == 0) start(marker);
  return marker;
}

OpRef mark_stream(const StreamRef &stream) {
  OpRef marker = make_op(Op::Kind::marker);
  if (settings().free_running) {
    run_now(marker);
    return marker;
  }
  std::unique_lock<std::mutex> hold(engine().mutex);
  depend(marker, stream->last);
  if (stream->legacy)
    for (const StreamRef &other : stream->context.streams)
      if (other->blocking()) depend(marker, other->last);
  add_unfinished(stream->context, marker);
  if (marker->unmet == 0) start(marker);
  return marker;
}

OpRef raise_barrier(Context &context) {
  OpRef barrier = make_op(Op::Kind::marker);
  if (settings().free_running) {
    run_now(barrier);
    return barrier;
  }
  std::unique_lock<std::mutex> hold(engine().mutex);
  for (const OpRef &op : context.unfinished) depend(barrier, op);
  add_unfinished(context, barrier);
  if (barrier->unmet == 0)
    start(barrier);
  else
    context.barrier = barrier;
  return barrier;
}

bool is_done(const OpRef &op) {
  if (!op) return true;
  std::lock_guard<std::mutex> hold(engine().mutex);
  return op->done;
}

void wait_until_done(const OpRef &op) {
  Engine &e = engine();
  std::unique_lock<std::mutex> hold(e.mutex);
  const HostWait wait(SeenThread::For::op, op.get());
  e.waiting++;
  while (!op->done && !e.lost) e.progress.wait(hold);
  e.waiting--;
}

void look_until_done(const OpRef &op) {
  Engine &e = engine();
  const HostWait wait(SeenThread::For::op, op.get());
  const auto ends = [&] {
    std::lock_guard<std::mutex> hold(e.mutex);
    return op->done || e.lost;
  };
  while (!ends()) std::this_thread::yield();
}

void look_at_kernels(const std::function<void(const std::vector<Running> &, const std::vector<Running> &)> &look) {
  Engine &e = engine();
  std::vector<Running> run, wait;
  std::lock_guard<std::mutex> hold(e.mutex);
  each_context([&](Context &context) {
    for (const OpRef &op : context.unfinished)
      if (op->function && op->threads_taken) run.push_back({&context, op->function, op->grid, op->threads_taken});
  });
  for (const OpRef &op : e.waiting_for_room)
    if (op->function) wait.push_back({op->context, op->function, op->grid, 0});
  look(run, wait);
}

uint64_t look_at_waits(const LookAtWaits *look) {
  Engine &e = engine();
  std::lock_guard<std::mutex> hold(e.mutex);
  const auto number = [](const auto *object) { return reinterpret_cast<uint64_t>(object); };
  std::unordered_map<uint64_t, uint64_t> oldest;  // of each stream
  each_context([&](Context &context) {
    for (const OpRef &op : context.unfinished) {
      if (op->stream) oldest.emplace(number(op->stream.get()), number(op.get()));
      const bool is_kernel = op->kind == Op::Kind::kernel;
      const bool has_room = !is_kernel || op->threads_taken;
      const SeenOp seen{number(op.get()), op->tag, is_kernel,
                        op->unmet ? SeenOp::State::behind : has_room ? SeenOp::State::runs : SeenOp::State::no_room, op->stream.get()};
      look->op(look->user, &seen);
      for (const OpRef &dependent : op->dependents) look->waits(look->user, number(dependent.get()), number(op.get()));
      for (const OpRef &next : op->behind) look->waits(look->user, number(next.get()), number(op.get()));
      // Room comes from any kernel that has taken some.
      for (const OpRef &kernel : e.waiting_for_room)
        if (op->threads_taken) look->waits(look->user, number(kernel.get()), number(op.get()));
    }
  });
  const auto with_oldest = [&](const SeenThread *thread) {
    SeenThread seen = *thread;
    if (seen.what == SeenThread::For::room) seen.id = oldest[seen.id];
    look->thread(look->user, &seen);
  };
  each_waiting_thread([](void *user, const SeenThread *thread) { (*static_cast<decltype(with_oldest) *>(user))(thread); },
                      const_cast<void *>(static_cast<const void *>(&with_oldest)));
  return e.moves;
}

void lose_all_work(CUresult error) {
  Engine &e = engine();
  std::lock_guard<std::mutex> hold(e.mutex);
  // Before the waits end: from then on calls answer it.
  slow_entry |= kWorkLost;
  e.lost = error;
  e.progress.notify_all();
}

CUresult error_of_lost_work() { return engine().lost.load(std::memory_order_relaxed); }
bool work_is_lost() { return error_of_lost_work() != CUDA_SUCCESS; }

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void run_host_function(Context *context, const std::function<void()> &call) {
  std::unique_lock<std::mutex> one_at_a_time;
  if (context) one_at_a_time = std::unique_lock<std::mutex>(context->host_functions);
  char before[16] = "";
  pthread_getname_np(pthread_self(), before, sizeof before);
  pthread_setname_np(pthread_self(), std::string(program_invocation_short_name).substr(0, sizeof before - 1).c_str());
  in_host_function() = true;
  call();
  in_host_function() = false;
  pthread_setname_np(pthread_self(), before);
}

bool &in_host_function() {
  static thread_local bool inside = false;
  return inside;
}

}  // namespace lgsim
