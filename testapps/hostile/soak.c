/* soak SECONDS: everything at once, for long. 32 threads launch on 64 streams and make and destroy streams, events, memory, modules and
 * contexts; signals storm on them; threads are cancelled while they launch; children are forked, and execute this program or another.
 *
 * Ends with one line a counter, `NAME COUNT`. `scripts/soak` runs it bare and guarded and compares what must be equal: no call fails, no
 * child ends badly, what was made was destroyed, and the guard has counted each launch that was made. A launch is made when the driver is
 * called: one in which the thread was cancelled counts as `cancelled_in_launch`.
 *
 * soak child: a small job whose result is known; exit 0 if it is right. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "driver.h"

enum { THREADS = 32, STREAMS = 64 };

#define COUNTERS(X)                                                                                                              \
  X(launched) X(cancelled_in_launch) X(streams_made) X(streams_destroyed) X(synchronized) X(events_made) X(events_recorded)       \
  X(events_destroyed) X(allocated) X(freed) X(copied) X(modules_loaded) X(modules_unloaded) X(contexts_made) X(contexts_destroyed) \
  X(looked_up) X(driver_reopened) X(forked) X(children_bad) X(cancelled) X(signalled) X(failed)

enum counter {
#define X(name) name,
  COUNTERS(X)
#undef X
};
static const char *const names[] = {
#define X(name) #name,
    COUNTERS(X)
#undef X
};
static atomic_long counts[sizeof names / sizeof names[0]];

static struct job j;
static CUstream streams[STREAMS];
static pthread_t threads[THREADS];
static atomic_int stop;

static CUresult (*module_load)(CUmodule *, const void *);
static CUresult (*module_function)(CUfunction *, CUmodule, const char *);
static CUresult (*module_unload)(CUmodule);
static CUresult (*context_create)(CUcontext *, unsigned, CUdevice);
static CUresult (*context_destroy)(CUcontext);
static CUresult (*event_destroy)(CUevent);
static CUresult (*event_query)(CUevent);
static CUresult (*proc_address)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void count(enum counter counter) { atomic_fetch_add_explicit(&counts[counter], 1, memory_order_relaxed); }

/* Whether a call succeeded; counts it, or that it failed. */
static int made(CUresult result, enum counter counter, const char *call) {
  if (result == CUDA_SUCCESS) {
    count(counter);
    return 1;
  }
  count(failed);
  fprintf(stderr, "%s: error %d\n", call, (int)result);
  return 0;
}
#define MADE(call, counter) made(call, counter, #call)

static void on_signal(int signal) {
  (void)signal;
  count(signalled);
}

static unsigned random_number(unsigned *seed) {
  *seed = *seed * 1103515245u + 12345u;
  return *seed >> 8;
}

static void stream_of_its_own(void) {
  CUstream stream;
  if (!MADE(j.d.stream_create(&stream, CU_STREAM_NON_BLOCKING), streams_made)) return;
  MADE(job_launch(&j, j.nothing, stream, 0, 0), launched);
  MADE(j.d.stream_destroy(stream), streams_destroyed);
}

static void event_of_its_own(CUstream stream, int waits) {
  CUevent event;
  if (!MADE(j.d.event_create(&event, CU_EVENT_DISABLE_TIMING), events_made)) return;
  MADE(j.d.event_record(event, stream), events_recorded);
  event_query(event);
  if (waits) MADE(j.d.event_synchronize(event), synchronized);
  MADE(event_destroy(event), events_destroyed);
}

static void memory_of_its_own(CUstream stream) {
  CUdeviceptr memory;
  char bytes[64] = {0};
  if (!MADE(j.d.mem_alloc(&memory, 4096), allocated)) return;
  MADE(j.d.copy_async(memory, bytes, sizeof bytes, stream), copied);
  MADE(j.d.stream_synchronize(stream), synchronized);
  MADE(j.d.mem_free(memory), freed);
}

static void launch_looked_up(CUstream stream) {
  __typeof__(j.d.launch) launch = NULL;
  CUdriverProcAddressQueryResult status;
  if (!MADE(proc_address("cuLaunchKernel", (void **)&launch, 12000, 0, &status), looked_up)) return;
  MADE(launch(j.nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), launched);
}

static void module_of_its_own(CUstream stream) {
  CUmodule module;
  CUfunction function;
  if (!MADE(module_load(&module, j.code), modules_loaded)) return;
  CK(module_function(&function, module, "nothing"));
  MADE(j.d.launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), launched);
  MADE(j.d.stream_synchronize(stream), synchronized);
  MADE(module_unload(module), modules_unloaded);
}

static void context_of_its_own(void) {
  CUcontext context;
  CUstream stream;
  if (!MADE(context_create(&context, 0, j.device), contexts_made)) return;
  if (MADE(j.d.stream_create(&stream, 0), streams_made)) {
    MADE(job_launch(&j, j.nothing, stream, 0, 0), launched);
    MADE(j.d.stream_synchronize(stream), synchronized);
    MADE(j.d.stream_destroy(stream), streams_destroyed);
  }
  MADE(context_destroy(context), contexts_destroyed);
  CK(j.d.set_current(j.context));
}

static void reopen_driver(void) {
  void *handle = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(handle != NULL && dlsym(handle, "cuLaunchKernel") != NULL);
  dlclose(handle);
  count(driver_reopened);
}

static void *works(void *number) {
  unsigned seed = (unsigned)(size_t)number * 7919u + (unsigned)time(NULL);
  CK(j.d.set_current(j.context));
  while (!stop) {
    const unsigned what = random_number(&seed) % 1000;
    const CUstream stream = streams[random_number(&seed) % STREAMS];
    if (what < 600) MADE(job_launch(&j, j.nothing, stream, 0, 0), launched);
    else if (what < 700) MADE(j.d.stream_synchronize(stream), synchronized);
    else if (what < 760) stream_of_its_own();
    else if (what < 840) event_of_its_own(stream, what % 2);
    else if (what < 880) memory_of_its_own(stream);
    else if (what < 930) launch_looked_up(stream);
    else if (what < 945) module_of_its_own(stream);
    else if (what < 950) context_of_its_own();
    else if (what < 960) reopen_driver();
    else if (what < 965) usleep(random_number(&seed) % 2000);
  }
  return NULL;
}

static void left_launch(void *launching) {
  if (*(volatile int *)launching) count(cancelled_in_launch);
}

static void *launches_until_cancelled(void *unused) {
  volatile int launching = 0;
  (void)unused;
  CK(j.d.set_current(j.context));
  pthread_cleanup_push(left_launch, (void *)&launching);
  for (;;) {
    launching = 1;
    const CUresult result = job_launch(&j, j.nothing, streams[3], 0, 0);
    launching = 0;
    made(result, launched, "cuLaunchKernel");
    pthread_testcancel();
  }
  pthread_cleanup_pop(0);
}

static void cancel_a_thread(unsigned *seed) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, launches_until_cancelled, NULL) != 0) return;
  usleep(random_number(seed) % 1500);
  pthread_cancel(thread);
  EXPECT(pthread_join(thread, NULL) == 0);
  count(cancelled);
}

static void fork_a_child(unsigned *seed, char *self) {
  const unsigned what = random_number(seed) % 3;
  const pid_t child = fork();
  if (child == 0) {
    char *again[] = {self, "child", NULL}, *other[] = {"/bin/true", NULL};
    signal(SIGUSR1, SIG_IGN);
    if (what == 0) _exit(0);
    if (what == 1) execv(self, again);
    execv(other[0], other);
    _exit(9);
  }
  EXPECT(child > 0);
  count(forked);
  int status;
  while (waitpid(child, &status, 0) < 0) EXPECT(errno == EINTR);
  if (status != 0) {
    count(children_bad);
    print_wait_status("child", status);
  }
}

static int entries(const char *folder) {
  DIR *open = opendir(folder);
  int found = -2; /* . and .. */
  if (open == NULL) return -1;
  while (readdir(open) != NULL) found++;
  closedir(open);
  return found;
}

static int lines(const char *path) {
  FILE *file = fopen(path, "r");
  int count = 0;
  for (int c; file != NULL && (c = fgetc(file)) != EOF;) count += c == '\n';
  if (file != NULL) fclose(file);
  return count;
}

/* Those that have not ended, or that this process has not waited for. */
static int children(void) {
  siginfo_t ended = {0};
  return waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 ? 1 : 0;
}

static void tell(const char *when) {
  FILE *file = fopen("/proc/self/statm", "r");
  long all = 0, resident = 0;
  EXPECT(file != NULL && fscanf(file, "%ld %ld", &all, &resident) == 2);
  fclose(file);
  printf("%s: resident %ld kB, descriptors %d, threads %d, mappings %d, children %d, launched %ld\n", when, resident * (sysconf(_SC_PAGESIZE) / 1024),
         entries("/proc/self/fd"), entries("/proc/self/task"), lines("/proc/self/maps"), children(), (long)counts[launched]);
  fflush(stdout);
}

static int child(void) {
  job_begin(&j);
  for (int i = 0; i < 5; i++) CK(job_add(&j, j.stream, 1));
  const int right = job_sum(&j) == 5;
  job_end(&j);
  return right ? 0 : 9;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "child") == 0) return child();
  const int seconds = argc > 1 ? atoi(argv[1]) : 2;
  char self[4096] = "";
  EXPECT(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  job_begin(&j);
#define FIND(name, symbol) EXPECT((name = (__typeof__(name))dlsym(j.d.handle, symbol)) != NULL)
  FIND(module_load, "cuModuleLoadData");
  FIND(module_function, "cuModuleGetFunction");
  FIND(module_unload, "cuModuleUnload");
  FIND(context_create, "cuCtxCreate_v2");
  FIND(context_destroy, "cuCtxDestroy_v2");
  FIND(event_destroy, "cuEventDestroy_v2");
  FIND(event_query, "cuEventQuery");
  FIND(proc_address, "cuGetProcAddress_v2");
  for (int i = 0; i < STREAMS; i++) MADE(j.d.stream_create(&streams[i], CU_STREAM_NON_BLOCKING), streams_made);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  for (size_t i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, works, (void *)i) == 0);

  unsigned seed = 42;
  const time_t began = time(NULL);
  for (time_t told = 0, past; (past = time(NULL) - began) < seconds;) {
    for (int i = 0; i < 20; i++) pthread_kill(threads[random_number(&seed) % THREADS], SIGUSR1);
    if (random_number(&seed) % 40 == 0) fork_a_child(&seed, self);
    cancel_a_thread(&seed);
    usleep(500);
    if (past != told && past % 10 == 0) {
      char when[32];
      snprintf(when, sizeof when, "after %ld s", (long)past);
      tell(when);
      told = past;
    }
  }

  stop = 1;
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  MADE(j.d.ctx_synchronize(), synchronized);
  for (int i = 0; i < STREAMS; i++) MADE(j.d.stream_destroy(streams[i]), streams_destroyed);
  tell("at the end");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) printf("%s %ld\n", names[i], (long)counts[i]);
  return counts[failed] || counts[children_bad] ? 1 : 0;
}
