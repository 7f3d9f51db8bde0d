/* Trap 9: settings are read once. The environment is rewritten and cleared without pause while other threads launch: a getenv in a hook
 * reads freed memory sooner or later, and a setting that is read again changes under way.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

enum { THREADS = 2, LAUNCHES = 1000 };

static struct job j;
static atomic_int stop;

static void *launch_all(void *unused) {
  CUstream stream;
  (void)unused;
  CK(j.d.set_current(j.context));
  CK(j.d.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < LAUNCHES; i++) CK(job_launch(&j, j.nothing, stream, NULL, NULL));
  CK(j.d.stream_synchronize(stream));
  CK(j.d.stream_destroy(stream));
  return NULL;
}

static void *churn(void *unused) {
  char name[64];
  (void)unused;
  for (unsigned i = 0; !atomic_load(&stop); i++) {
    snprintf(name, sizeof name, "HOSTILE_%u", i % 200);
    setenv(name, "a value that is long enough to be allocated anew each time it is set", 1);
    setenv("LAZYGUARD_LOG", i % 2 ? "nonsense" : "launch", 1);
    setenv("LAZYGUARD", i % 2 ? "on" : "nonsense", 1);
    if (i % 500 == 499) clearenv();
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS], churner;
  job_begin(&j);
  EXPECT(pthread_create(&churner, NULL, churn, NULL) == 0);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, launch_all, NULL) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  atomic_store(&stop, 1);
  pthread_join(churner, NULL);
  job_end(&j);
  printf("%d launches in a moving environment\n", THREADS * LAUNCHES);
  return 0;
}
