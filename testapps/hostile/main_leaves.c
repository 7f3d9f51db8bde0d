/* The main thread leaves by pthread_exit. The process ends with its last thread, and exit handlers run; until then a signal ends it.
 *
 *   main_leaves joinable|detached|daemon|killed|by_call
 *
 * by_call: it leaves by the system call, alone, and no exit handler runs.
 *
 * bare and guarded: prints the same lines, exit 0; killed: signal 15; by_call: exit 7. */
#include <signal.h>
#include <sys/syscall.h>

#include "driver.h"

static const char *mode;

/* Without a context: where there is one, the driver has threads of its own. The synchronization is a call that may wait. */
static void *works(void *driver) {
  const struct driver *d = driver;
  CK(d->init(0));
  printf("without a context: %d\n", (int)d->ctx_synchronize());
  if (strcmp(mode, "killed") == 0) {
    fflush(stdout);
    kill(getpid(), SIGTERM);
    for (;;) pause();
  }
  /* Not written out: the exit does that. */
  printf("the last thread ends\n");
  return NULL;
}

static void handler(void) { printf("an exit handler runs\n"); }

static void leave(void) {
  static struct driver d;
  pthread_attr_t how;
  pthread_t thread;
  d = driver_open();
  atexit(handler);
  if (strcmp(mode, "by_call") == 0) {
    CK(d.init(0));
    printf("without a context: %d\n", (int)d.ctx_synchronize());
    fflush(stdout);
    syscall(SYS_exit, 7);
  }
  pthread_attr_init(&how);
  if (strcmp(mode, "joinable") != 0) pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
  EXPECT(pthread_create(&thread, &how, works, &d) == 0);
  pthread_exit(NULL);
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  mode = argv[1];
  if (strcmp(mode, "daemon") == 0) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child != 0) {
      int status;
      /* A daemon that does not end is found by this alarm. */
      alarm(8);
      EXPECT(waitpid(child, &status, 0) == child);
      print_wait_status("the daemon", status);
      return 0;
    }
    setsid();
  }
  leave();
}
