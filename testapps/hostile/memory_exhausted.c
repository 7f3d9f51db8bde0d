/* Memory is used up, as by a program that handles that, and then threads make their first driver calls.
 *
 *   memory_exhausted [THREADS [HANDLES]]   one thread, and no more handles, where absent
 *
 * A handle that no call has given out is refused by the simulated driver; the guard remembers it, and runs out of memory with a thousand.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "driver.h"

static struct job j;
static pthread_barrier_t barrier;

static atomic_int failed;
static int handles;

static void *first_call(void *unused) {
  (void)unused;
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  if (j.d.stream_query(j.stream) != CUDA_SUCCESS) atomic_fetch_add(&failed, 1);
  for (intptr_t i = 1; i <= handles; i++) (void)j.d.stream_query((CUstream)(i << 12));
  return NULL;
}

int main(int argc, char **argv) {
  static pthread_t threads[1000];
  const int count = argc > 1 ? atoi(argv[1]) : 1;
  struct rlimit limit;
  handles = argc > 2 ? atoi(argv[2]) : 0;
  setvbuf(stdout, NULL, _IONBF, 0);
  job_begin(&j);
  CK(job_add(&j, j.stream, 1));
  CK(j.d.stream_synchronize(j.stream));
  EXPECT(pthread_barrier_init(&barrier, NULL, count + 1) == 0);
  for (int i = 0; i < count; i++) EXPECT(pthread_create(&threads[i], NULL, first_call, NULL) == 0);
  pthread_barrier_wait(&barrier);
  EXPECT(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = 1;
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  for (size_t bytes = 1 << 20; bytes >= 16; bytes /= 2) {
    void *volatile kept;
    do kept = malloc(bytes);
    while (kept != NULL);
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < count; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  printf("threads that could not: %d\n", atomic_load(&failed));
  return 0;
}
