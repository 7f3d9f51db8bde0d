/* Trap 6: driver calls from where a thread is already being taken apart, out of a pthread key's destructor (the C form of a thread_local
 * destructor), in two rounds, so that the guard's own thread-local data may be gone by the second.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

enum { THREADS = 50 };

static struct job j;
static pthread_key_t key;
static atomic_int late_launches;

static void at_thread_exit(void *round) {
  CK(j.d.set_current(j.context));
  CK(job_launch(&j, j.nothing, j.stream, NULL, NULL));
  atomic_fetch_add(&late_launches, 1);
  if ((intptr_t)round < 3) pthread_setspecific(key, (void *)((intptr_t)round + 1));
}

static void *leave(void *unused) {
  (void)unused;
  EXPECT(pthread_setspecific(key, (void *)1) == 0);
  return NULL;
}

int main(void) {
  job_begin(&j);
  EXPECT(pthread_key_create(&key, at_thread_exit) == 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, leave, NULL) == 0);
    pthread_join(thread, NULL);
  }
  CK(j.d.stream_synchronize(j.stream));
  printf("launches from leaving threads: %d\n", atomic_load(&late_launches));
  job_end(&j);
  return 0;
}
