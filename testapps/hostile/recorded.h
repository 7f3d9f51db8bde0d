/* What the programs share whose recordings are read afterwards.
 *
 * A driver call made by DO counts under its exported name as soon as it has returned, and say_counts writes the counts by one plain
 * write(2): each counted call has returned, whatever ends the process next. What differs from run to run (thread ids, handles) goes into
 * a file that the harness names, a line each: "NAME NUMBER".
 *
 * The programs are linked to the driver, so that cuda.h says which export a call goes to. Calls that need not leave a record (allocations,
 * look-ups) are made without DO. */
#ifndef HOSTILE_RECORDED_H
#define HOSTILE_RECORDED_H

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "driver.h"

#define EXPORTED_NAME_OF(function) #function
#define EXPORTED_NAME(function) EXPORTED_NAME_OF(function)

#define DO(function, ...)             \
  do {                                \
    CK(function(__VA_ARGS__));        \
    count_call(EXPORTED_NAME(function)); \
  } while (0)

enum { MOST_KINDS = 64 };

static struct {
  const char *name;
  long calls;
} counted[MOST_KINDS];
static int kinds_counted;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static inline void count_call(const char *name) {
  int at = 0;
  pthread_mutex_lock(&counting);
  while (at < kinds_counted && strcmp(counted[at].name, name) < 0) at++;
  if (at == kinds_counted || strcmp(counted[at].name, name) != 0) {
    EXPECT(kinds_counted < MOST_KINDS);
    memmove(&counted[at + 1], &counted[at], (size_t)(kinds_counted++ - at) * sizeof *counted);
    counted[at].name = name;
    counted[at].calls = 0;
  }
  counted[at].calls++;
  pthread_mutex_unlock(&counting);
}

/* "EXPORT CALLS" a line, by name. */
static inline void say_counts(void) {
  char text[MOST_KINDS * 64];
  size_t length = 0;
  pthread_mutex_lock(&counting);
  for (int i = 0; i < kinds_counted; i++)
    length += (size_t)snprintf(text + length, sizeof text - length, "%s %ld\n", counted[i].name, counted[i].calls);
  pthread_mutex_unlock(&counting);
  EXPECT(length < sizeof text && write(STDOUT_FILENO, text, length) == (ssize_t)length);
}

static int facts_file = -1;

/* Without a name nothing is kept. */
static inline void facts_open(const char *path) {
  if (path == NULL) return;
  facts_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  EXPECT(facts_file >= 0);
}

static inline void fact(const char *name, unsigned long long number) {
  char line[128];
  const int length = snprintf(line, sizeof line, "%s %llu\n", name, number);
  if (facts_file >= 0) EXPECT(write(facts_file, line, (size_t)length) == length);
}

static inline void fact_handle(const char *name, const void *handle) { fact(name, (unsigned long long)(uintptr_t)handle); }

static inline pid_t own_thread(void) { return (pid_t)syscall(SYS_gettid); }

/* As job_begin, with every call counted that leaves a record. */
static inline void counted_begin(struct job *j) {
  j->d = driver_open();
  CK(cuInit(0));
  CK(cuDeviceGet(&j->device, 0));
  DO(cuDevicePrimaryCtxRetain, &j->context, j->device);
  CK(cuCtxSetCurrent(j->context));
  DO(cuStreamCreate, &j->stream, CU_STREAM_NON_BLOCKING);
  j->code = driver_image(&j->d, "job");
  DO(cuLibraryLoadData, &j->library, j->code, NULL, NULL, 0, NULL, NULL, 0);
  j->add = job_kernel(j, "add");
  j->nothing = job_kernel(j, "nothing");
  j->spin = job_kernel(j, "spin");
  j->release = job_kernel(j, "release");
  CK(cuMemAlloc(&j->sum, sizeof(int)));
  DO(cuMemsetD32, j->sum, 0, 1);
  DO(cuCtxSynchronize);
}

/* Launches one thread of a kernel that takes no or one parameter. */
static inline void counted_launch(CUfunction function, CUstream stream, void *parameter) {
  void *parameters[] = {parameter, NULL};
  DO(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

/* Waits until a thread that said that it is about to block sleeps in the kernel. */
static inline void until_asleep(const atomic_int *thread) {
  char path[64], line[512];
  while (atomic_load(thread) == 0) sleep_ms(1);
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(thread));
  for (int asleep = 0; asleep < 20; sleep_ms(5)) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(file >= 0);
    const ssize_t n = read(file, line, sizeof line - 1);
    close(file);
    EXPECT(n > 0);
    line[n] = '\0';
    const char *state = strrchr(line, ')');
    asleep = state != NULL && state[2] == 'S' ? asleep + 1 : 0;
  }
}

#endif
