/* Trap 1: no lock of the guard may be held across a driver call. Four threads launch without pause while another loads and unloads
 * libraries; a lock held over a load would stop the launches, one held over a launch would close the circle.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

enum { THREADS = 4, LAUNCHES = 300, LOADS = 20 };

static struct job j;
static CUstream streams[THREADS];

static void *launch_all(void *stream) {
  CK(j.d.set_current(j.context));
  for (int i = 0; i < LAUNCHES; i++) CK(job_launch(&j, j.nothing, stream, NULL, NULL));
  CK(j.d.stream_synchronize(stream));
  return NULL;
}

static void *load_all(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  for (int i = 0; i < LOADS; i++) {
    CUlibrary library;
    CUkernel kernel;
    CK(j.d.library_load(&library, j.code, NULL, NULL, 0, NULL, NULL, 0));
    CK(j.d.library_kernel(&kernel, library, "nothing"));
    CK(job_launch(&j, (CUfunction)kernel, j.stream, NULL, NULL));
    CK(j.d.stream_synchronize(j.stream));
    CK(j.d.library_unload(library));
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS + 1];
  job_begin(&j);
  for (int i = 0; i < THREADS; i++) {
    CK(j.d.stream_create(&streams[i], CU_STREAM_NON_BLOCKING));
    EXPECT(pthread_create(&threads[i], NULL, launch_all, streams[i]) == 0);
  }
  EXPECT(pthread_create(&threads[THREADS], NULL, load_all, NULL) == 0);
  for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
  job_end(&j);
  printf("%d launches beside %d loads\n", THREADS * LAUNCHES, LOADS);
  return 0;
}
