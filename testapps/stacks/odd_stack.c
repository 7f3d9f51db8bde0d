/* A driver call on a stack of an unusual kind, or at an unusual time.
 *
 * usage: odd_stack tiny      a thread with a stack of 16 KiB
 *        odd_stack heap      a thread whose stack lies in memory from malloc
 *        odd_stack context   another stack that the main thread has gone over to
 *        odd_stack signal    the handler of a signal
 *        odd_stack left      a thread whose process's main thread has left
 *        odd_stack end       the destructor of a library, when the process ends
 * hangs in cuStreamSynchronize: on_it <- entry
 * build: -fno-optimize-sibling-calls */
#include "stuck.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static CUcontext context;
static CUstream stream;

__attribute__((noinline)) static long on_it(long more) {
  const CUresult result = cuStreamSynchronize(stream); /* the call */
  return (long)result + more;
}

static void *entry(void *unused) {
  (void)unused;
  stuck_check(cuCtxSetCurrent(context));
  return (void *)(intptr_t)(on_it(1) + 1); /* entry */
}

static void handler(int unused) {
  (void)unused;
  entry(NULL); /* handler */
}

__attribute__((noinline)) static int interrupted(void) {
  return raise(SIGUSR1) + 1; /* interrupted */
}

static void entry_of_another(void) { entry(NULL); }

static int waits_at_the_end(void) {
  char path[PATH_MAX] = "";
  if (readlink("/proc/self/exe", path, sizeof path - 32) < 0) return 2;
  strcpy(strrchr(path, '/'), "/libends.so");
  void *library = dlopen(path, RTLD_NOW);
  if (library == NULL) return 2;
  *(void (**)(void))dlsym(library, "ends_by") = entry_of_another;
  return 0;
}

int main(int argc, char **argv) {
  enum { TINY = 16384, ORDINARY = 1 << 17 };
  const char *kind = argc > 1 ? argv[1] : "";
  context = stuck_context();
  stream = stuck_stream();
  if (strcmp(kind, "context") == 0) {
    static ucontext_t here, there;
    if (getcontext(&there) != 0) return 2;
    there.uc_stack.ss_sp = malloc(ORDINARY);
    there.uc_stack.ss_size = ORDINARY;
    there.uc_link = &here;
    makecontext(&there, entry_of_another, 0);
    return swapcontext(&here, &there);
  }
  if (strcmp(kind, "signal") == 0) {
    if (signal(SIGUSR1, handler) == SIG_ERR) return 2;
    return interrupted();
  }
  if (strcmp(kind, "end") == 0) return waits_at_the_end();
  pthread_t thread;
  pthread_attr_t attributes;
  const int leaves = strcmp(kind, "left") == 0;
  if (pthread_attr_init(&attributes) != 0) return 2;
  if (strcmp(kind, "tiny") == 0) {
    if (pthread_attr_setstacksize(&attributes, TINY) != 0) return 2;
  } else if (strcmp(kind, "heap") == 0) {
    if (pthread_attr_setstack(&attributes, aligned_alloc(4096, ORDINARY), ORDINARY) != 0) return 2;
  } else if (!leaves) {
    return 2;
  }
  if (pthread_create(&thread, &attributes, entry, NULL) != 0) return 2;
  if (leaves) pthread_exit(NULL);
  return pthread_join(thread, NULL);
}
