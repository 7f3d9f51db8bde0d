/* Launches from many threads as fast as they go.
 *
 *   launch_storm [THREADS [LAUNCHES [ROUNDS [PUBLISHED]]]]
 *
 * THREADS threads at a time (4) launch LAUNCHES times each (1,000; 0: until killed) and end; that ROUNDS times over (1). In the file
 * PUBLISHED each thread of a round keeps, in 64 bytes of its own, its id and how many launches it has begun and how many have returned: a
 * shared mapping, which stays as it is when the process is killed. Once each thread has launched, the first word of the file is 1.
 *
 * bare and guarded: prints the same line, exit 0. Every launch is in the recording or counted as overtaken or dropped. */
#include <sys/mman.h>

#include "recorded.h"

enum { MOST_THREADS = 63 };

struct published {
  _Atomic uint64_t thread, begun, returned;
  uint64_t unused[5];
};

static struct job j;
static struct published own_page[MOST_THREADS + 1];
static struct published *published = own_page;
static CUstream streams[MOST_THREADS];
static int together = 4;
static long launches = 1000;
static atomic_int running;

static void *storm(void *argument) {
  const size_t mine = (size_t)(uintptr_t)argument;
  struct published *const said = &published[mine + 1];
  CK(cuCtxSetCurrent(j.context));
  atomic_store(&said->begun, 0);
  atomic_store(&said->returned, 0);
  atomic_store(&said->thread, (uint64_t)own_thread());
  atomic_fetch_add(&running, 1);
  /* Those of the first round begin together. */
  while (atomic_load(&running) < together) sleep_ms(1);
  for (uint64_t n = 1; launches == 0 || n <= (uint64_t)launches; n++) {
    void *no_parameters[] = {NULL};
    atomic_store_explicit(&said->begun, n, memory_order_release);
    CK(cuLaunchKernel(j.nothing, 1, 1, 1, 1, 1, 1, 0, streams[mine], no_parameters, NULL));
    atomic_store_explicit(&said->returned, n, memory_order_release);
  }
  return NULL;
}

int main(int argc, char **argv) {
  const int rounds = argc > 3 ? atoi(argv[3]) : 1;
  if (argc > 1) together = atoi(argv[1]);
  if (argc > 2) launches = atol(argv[2]);
  EXPECT(together >= 1 && together <= MOST_THREADS);
  if (argc > 4) {
    const int file = open(argv[4], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    EXPECT(file >= 0 && ftruncate(file, sizeof own_page) == 0);
    published = mmap(NULL, sizeof own_page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT(published != MAP_FAILED);
  }
  counted_begin(&j);
  for (int i = 0; i < together; i++) DO(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING);
  /* Whatever is loaded on first use is loaded now. */
  counted_launch(j.nothing, j.stream, NULL);
  DO(cuStreamSynchronize, j.stream);
  for (int round = 0; round < rounds; round++) {
    pthread_t threads[MOST_THREADS];
    for (int i = 0; i < together; i++) EXPECT(pthread_create(&threads[i], NULL, storm, (void *)(uintptr_t)i) == 0);
    for (int i = 1; round == 0 && i <= together;) {
      if (atomic_load(&published[i].returned) > 0) i++;
      else sleep_ms(1);
    }
    atomic_store(&published[0].thread, 1);
    for (int i = 0; i < together; i++) pthread_join(threads[i], NULL);
  }
  DO(cuCtxSynchronize);
  printf("%d threads launched %ld times each\n", together * rounds, launches);
  return 0;
}
