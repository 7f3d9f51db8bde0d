// Counts what the warm path of launches asks of the process and of the kernel: allocations, locks and system calls of one thread, in a
// window of launches on several streams and functions, event records, queries and memory operations.
//
// The program defines malloc and pthread_mutex_lock and their like itself, so that its own come before libc's for everything that is loaded,
// a preloaded library as well. System calls are counted by a seccomp filter on the measuring thread alone: each traps, is counted and let
// through. The window is long enough for a recorder of 64-byte records to go through several pages of every kind of record.
//
// bare and guarded: prints the same lines, exit 0. What a driver does by itself is in both; whatever is more under a guard is the guard's.
//
// Usage: warm_path [--steps]
//   --steps  a shorter window, an instruction at a time (steps.hpp): system calls, and instructions that lock the bus. Nothing at full
//            speed, and nothing that a filter could miss.
// Prints `system calls: not counted (WHY)` where the kernel installs no filter.
// build: -rdynamic
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "image.hpp"
#include "session.hpp"
#include "steps.hpp"

namespace {

constexpr int kFunctions = 8;
constexpr int kStreams = 6;
// Also until a guard's tables are as large as these functions and streams need: where handles lie decides how often they are in each other's way.
constexpr int kWarmUp = 4000;
// Each kind of call often enough for four times 63 records and more.
constexpr int kRounds = 20000;
// Some hundred calls, of which each instruction costs a trap.
constexpr int kStepRounds = 100;

// Set in the measuring thread for the length of the window.
thread_local bool counting = false;
long allocations = 0, locks = 0, system_calls = 0;

void count_allocation() {
  if (counting) ++allocations;
}
void count_lock() {
  if (counting) ++locks;
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t size) {
  count_allocation();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  count_allocation();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  count_allocation();
  return __libc_realloc(memory, size);
}
void free(void* memory) {
  if (memory != nullptr) count_allocation();
  __libc_free(memory);
}
void* memalign(size_t alignment, size_t size) {
  count_allocation();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* found = memalign(alignment, size);
  if (found == nullptr) return ENOMEM;
  *memory = found;
  return 0;
}

// libc's own function behind the one that is defined here.
#define COUNTED_LOCK(name, type, failure)                                                    \
  int name(type* lock) failure {                                                             \
    static int (*real)(type*) = nullptr;                                                     \
    count_lock();                                                                            \
    if (real == nullptr) real = reinterpret_cast<int (*)(type*)>(dlsym(RTLD_NEXT, #name));   \
    return real(lock);                                                                       \
  }

COUNTED_LOCK(pthread_mutex_lock, pthread_mutex_t, noexcept)
COUNTED_LOCK(pthread_mutex_trylock, pthread_mutex_t, noexcept)
COUNTED_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t, noexcept)
COUNTED_LOCK(pthread_rwlock_tryrdlock, pthread_rwlock_t, noexcept)
COUNTED_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t, noexcept)
COUNTED_LOCK(pthread_rwlock_trywrlock, pthread_rwlock_t, noexcept)
COUNTED_LOCK(pthread_spin_lock, pthread_spinlock_t volatile, noexcept)
COUNTED_LOCK(sem_wait, sem_t, )

// Performs the system call `number`; the filter lets what comes from here pass.
long let_through(long number, long a, long b, long c, long d, long e, long f);
extern const char let_through_end[];
asm(R"(
  .text
  .globl let_through, let_through_end
  .type let_through, @function
let_through:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
let_through_end:
  ret
  .size let_through, . - let_through
)");

}  // extern "C"

namespace {

void on_system_call(int, siginfo_t* info, void* context) {
  if (counting) ++system_calls;
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RAX] = let_through(info->si_syscall, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10],
                                   registers[REG_R8], registers[REG_R9]);
}

// Makes every system call of the calling thread trap. For good: a filter is never taken off, so the thread must not end in the usual way,
// which blocks signals first and would not survive the trap.
bool trap_system_calls() {
  struct sigaction action = {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  const auto end = reinterpret_cast<uintptr_t>(let_through_end);
  constexpr uint32_t kPointer = offsetof(seccomp_data, instruction_pointer);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 4, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPointer),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(end), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPointer + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(end >> 32), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog filter = {sizeof program / sizeof *program, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

struct Job {
  lg::Session session;
  CUfunction functions[kFunctions];
  CUstream streams[kStreams];
  CUevent event;
  CUdeviceptr memory, word;
  bool steps;
  bool trapped = false;
  int why = 0;
  int calls = 0;
  bench::Steps stepped;
  sem_t done;
};

Job job;

void run_rounds(int rounds) {
  void* parameters[] = {&job.memory, nullptr};
  for (int i = 0; i < rounds; ++i) {
    const CUstream stream = job.streams[i % kStreams];
    CK(cuLaunchKernel(job.functions[i % kFunctions], 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
    ++job.calls;
    switch (i % 5) {
      case 0: CK(cuEventRecord(job.event, stream)); break;
      case 1: CK(cuStreamQuery(stream)); break;
      case 2: CK(cuStreamWriteValue32(stream, job.word, static_cast<cuuint32_t>(i), 0)); break;
      case 3: CK(cuEventQuery(job.event)); break;
      default: continue;
    }
    ++job.calls;
  }
}

// That what is counted would be, had it happened: by libc, and by way of the kernel.
void expect_counting() {
  const long before[] = {allocations, system_calls};
  free(strdup("counted"));
  EXPECT(allocations == before[0] + 2);
  EXPECT(syscall(SYS_getppid) == let_through(SYS_getppid, 0, 0, 0, 0, 0, 0));
  EXPECT(!job.trapped || system_calls == before[1] + 1);
}

// Whether this machine reads its clock without asking the kernel; where it does not, every reading is a system call.
bool clock_is_a_system_call() {
  const long before = system_calls;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return system_calls != before;
}

void* measure(void*) {
  CK(cuCtxSetCurrent(job.session.context));
  run_rounds(kWarmUp);
  if (job.steps) {
    job.calls = 0;
    job.stepped = bench::count_steps([] { run_rounds(kStepRounds); });
    sem_post(&job.done);
    return nullptr;
  }
  job.trapped = trap_system_calls();
  job.why = errno;
  counting = true;
  expect_counting();
  if (job.trapped && clock_is_a_system_call()) job.why = -1;
  // Warm with the filter in place, too.
  run_rounds(kFunctions * kStreams);
  job.calls = 0;
  allocations = locks = system_calls = 0;
  run_rounds(kRounds);
  counting = false;
  sem_post(&job.done);
  while (job.trapped) let_through(SYS_pause, 0, 0, 0, 0, 0, 0);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  job.steps = argc > 1 && std::strcmp(argv[1], "--steps") == 0;
  job.session = lg::open_session();
  const auto code = lg::image("probes");
  CUmodule module;
  CK(cuModuleLoadData(&module, code.data()));
  for (int i = 0; i < kFunctions; ++i) CK(cuModuleGetFunction(&job.functions[i], module, ("cold" + std::to_string(10 + i)).c_str()));
  for (CUstream& stream : job.streams) CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CK(cuEventCreate(&job.event, CU_EVENT_DISABLE_TIMING));
  CK(cuMemAlloc(&job.memory, 256));
  CK(cuMemAlloc(&job.word, sizeof(cuuint32_t)));
  CK(cuMemsetD32(job.memory, 0, 64));
  CK(cuCtxSynchronize());
  sem_init(&job.done, 0, 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, nullptr, measure, nullptr) == 0);
  while (sem_wait(&job.done) != 0) {
  }
  std::printf("calls: %d\n", job.calls);
  if (job.steps) {
    std::printf("instructions: %lu\nlocked instructions: %lu\nsystem calls: %lu\n", job.stepped.instructions, job.stepped.locked, job.stepped.system_calls);
    pthread_join(thread, nullptr);
    return 0;
  }
  std::printf("allocations: %ld\nlocks: %ld\n", allocations, locks);
  if (job.why == -1) std::printf("system calls: not counted (this machine's clock is read by one)\n");
  else if (job.trapped) std::printf("system calls: %ld\n", system_calls);
  else std::printf("system calls: not counted (no filter: error %d)\n", job.why);
  return 0;
}
