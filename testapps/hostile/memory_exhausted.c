/* Memory is used up, as by a program that handles that, and then a thread makes its first driver call.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "driver.h"

static struct job j;
static pthread_barrier_t barrier;

static void *first_call(void *unused) {
  (void)unused;
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  printf("query: %d\n", (int)j.d.stream_query(j.stream));
  return NULL;
}

int main(void) {
  pthread_t thread;
  struct rlimit limit;
  setvbuf(stdout, NULL, _IONBF, 0);
  job_begin(&j);
  CK(j.d.stream_synchronize(j.stream));
  EXPECT(pthread_barrier_init(&barrier, NULL, 2) == 0);
  EXPECT(pthread_create(&thread, NULL, first_call, NULL) == 0);
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
  EXPECT(pthread_join(thread, NULL) == 0);
  printf("done\n");
  return 0;
}
