/* A thread looks names up with a lock that another thread's callback of dl_iterate_phdr waits for. A look-up of the C library's does not wait for
 * such a callback to end. Python does both with the interpreter's lock: ctypes looks up, and threadpoolctl visits the objects.
 *
 * bare and guarded: prints the same line, exit 0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { LOOK_UPS = 5000 };

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;

static int visit(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)object, (void)size, (void)unused;
  pthread_mutex_lock(&own);
  pthread_mutex_unlock(&own);
  return 0;
}

static void *visit_all(void *unused) {
  (void)unused;
  while (!atomic_load(&stop)) dl_iterate_phdr(visit, NULL);
  return NULL;
}

int main(void) {
  pthread_t thread;
  alarm(20);
  if (pthread_create(&thread, NULL, visit_all, NULL) != 0) return 2;
  for (int i = 0; i < LOOK_UPS; i++) {
    pthread_mutex_lock(&own);
    dlsym(RTLD_DEFAULT, "no_such_name");
    pthread_mutex_unlock(&own);
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  printf("%d look-ups\n", LOOK_UPS);
  return 0;
}
