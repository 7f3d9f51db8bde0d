/* Each function by its name, called without sane arguments in a child of its own that has a context: what the calling thread had is there afterwards,
 * but for what the function itself changes.
 *
 *   every_export NAME...
 *
 * bare and guarded: prints the same lines, exit 0. */
// build: -lm
#include <errno.h>
#include <fenv.h>
#include <signal.h>

#include "driver.h"

typedef long any(long, long, long, long, long, long, long, long, long, long, long, long);

/* A bit for each thing that a call has changed. */
static int changed_by(any *function) {
  sigset_t mask, after;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  feclearexcept(FE_ALL_EXCEPT);
  fesetround(FE_UPWARD);
  EXPECT(dlopen("no such library", RTLD_NOW) == NULL);
  feenableexcept(FE_ALL_EXCEPT);
  errno = 12345;
  function(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  const int error = errno, flags = fetestexcept(FE_ALL_EXCEPT), rounds = fegetround(), traps = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  const char *pending = dlerror();
  sigprocmask(SIG_SETMASK, NULL, &after);
  return (error != 12345) | (flags != 0) << 1 | (rounds != FE_UPWARD) << 2 | (traps != FE_ALL_EXCEPT) << 3 |
         (pending == NULL || strstr(pending, "no such library") == NULL) << 4 | (sigismember(&after, SIGUSR2) != 1) << 5 |
         (sigismember(&after, SIGPIPE) != 0) << 6;
}

/* The driver is initialised by the first of all calls, and the function called twice: the guard looks its own things up at the first. */
static int in_child(void *driver, void *nccl, const char *name) {
  alarm(20);
  CUcontext context;
  any *initialise = (any *)dlsym(driver, "cuInit"), *function = (any *)dlsym(driver, name);
  if (function == NULL && nccl != NULL) function = (any *)dlsym(nccl, name);
  if (function == NULL) return 99;
  const int changed = changed_by(initialise);
  CK(((__typeof__(&cuDevicePrimaryCtxRetain))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0));
  CK(((__typeof__(&cuCtxSetCurrent))dlsym(driver, "cuCtxSetCurrent"))(context));
  return changed | changed_by(function) | changed_by(function);
}

int main(int argc, char **argv) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *nccl = dlopen("libnccl.so.2", RTLD_NOW);
  EXPECT(driver != NULL);
  for (int i = 1; i < argc; i++) {
    fflush(stdout);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) _exit(in_child(driver, nccl, argv[i]));
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    print_wait_status(argv[i], status);
  }
  return 0;
}
