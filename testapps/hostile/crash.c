/* Ends in the middle of things, after a number of calls that it says right before: a thread is blocked in cuStreamSynchronize behind a
 * kernel that spins, others have just made their calls.
 *
 *   crash WAY [FACTS [FILLED]]
 *
 * WAY   kill      SIGKILL by a thread that makes no driver call
 *       raise     SIGKILL by the thread that has just launched
 *       first     the same, right after the first launch, and nothing is blocked
 *       exit      _exit(7)
 *       abort     abort()
 *       segfault  a write through a null pointer
 *       callback  the same in a host function, which the blocked thread waits for instead of the kernel
 *       stay      stays blocked
 * FACTS is where the blocked thread and the handle of its stream are noted. FILLED is a folder on a file system that is filled up as soon as
 * the driver is initialised; "limit" limits the size of files to a page instead.
 *
 * bare and guarded: prints the same lines, ends as it says. Every call that was counted is in the recording, and the one in progress. */
#include <errno.h>
#include <signal.h>

#include "recorded.h"

enum { ROUNDS = 5, LAUNCHES = 100, LAST_LAUNCHES = 10 };

static struct job j;
static const char *way;
static CUstream waited_for;
static atomic_int blocked_thread, all_said;
static int *volatile nowhere;

static void work(CUstream stream) {
  CUevent event;
  CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < LAUNCHES; i++) counted_launch(j.nothing, stream, NULL);
    DO(cuMemsetD32Async, j.sum, 1, 1, stream);
    DO(cuStreamWriteValue32, stream, j.sum, 2, 0);
    DO(cuEventRecord, event, stream);
    DO(cuStreamWaitEvent, stream, event, 0);
    DO(cuStreamSynchronize, stream);
  }
}

static void break_off(void *unused) {
  (void)unused;
  until_asleep(&blocked_thread);
  while (!atomic_load(&all_said)) sleep_ms(1);
  *nowhere = 1;
}

static void *block(void *unused) {
  CUdeviceptr never;
  (void)unused;
  CK(cuCtxSetCurrent(j.context));
  DO(cuStreamCreate, &waited_for, CU_STREAM_NON_BLOCKING);
  work(waited_for);
  if (strcmp(way, "callback") == 0) {
    DO(cuLaunchHostFunc, waited_for, break_off, NULL);
  } else {
    job_mapped_word(&j, &never);
    counted_launch(j.spin, waited_for, &never);
  }
  fact("blocked_thread", (unsigned long long)own_thread());
  fact_handle("blocked_stream", waited_for);
  atomic_store(&blocked_thread, own_thread());
  cuStreamSynchronize(waited_for);
  return NULL;
}

static void *kill_all(void *unused) {
  (void)unused;
  kill(getpid(), SIGKILL);
  return NULL;
}

/* Up to the last byte. */
static void fill(const char *folder) {
  static const char zeros[64 << 10];
  char path[4096];
  snprintf(path, sizeof path, "%s/filler", folder);
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT(file >= 0);
  for (size_t bytes = sizeof zeros; bytes > 0;)
    if (write(file, zeros, bytes) <= 0) bytes /= 2;
  EXPECT(errno == ENOSPC);
  close(file);
}

int main(int argc, char **argv) {
  const struct rlimit nothing = {0, 0}, a_page = {4096, 4096};
  pthread_t thread;
  way = argc > 1 ? argv[1] : "stay";
  setrlimit(RLIMIT_CORE, &nothing);
  facts_open(argc > 2 ? argv[2] : NULL);
  fact("main_thread", (unsigned long long)own_thread());
  counted_begin(&j);
  if (argc > 3 && strcmp(argv[3], "limit") == 0) {
    // The simulated driver loads code through a file in memory, for which the limit counts as well.
    counted_launch(j.nothing, j.stream, NULL);
    EXPECT(setrlimit(RLIMIT_FSIZE, &a_page) == 0);
  } else if (argc > 3) {
    fill(argv[3]);
  }
  if (strcmp(way, "first") == 0) {
    counted_launch(j.nothing, j.stream, NULL);
    raise(SIGKILL);
  }
  work(j.stream);
  EXPECT(pthread_create(&thread, NULL, block, NULL) == 0);
  until_asleep(&blocked_thread);
  for (int i = 0; i < LAST_LAUNCHES; i++) counted_launch(j.nothing, j.stream, NULL);
  say_counts();
  atomic_store(&all_said, 1);
  if (strcmp(way, "kill") == 0) EXPECT(pthread_create(&thread, NULL, kill_all, NULL) == 0);
  else if (strcmp(way, "raise") == 0) raise(SIGKILL);
  else if (strcmp(way, "exit") == 0) _exit(7);
  else if (strcmp(way, "abort") == 0) abort();
  else if (strcmp(way, "segfault") == 0) *nowhere = 1;
  for (;;) pause();
}
