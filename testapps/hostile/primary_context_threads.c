/* A thread makes the last release of the primary context, which waits for a kernel that spins there; meanwhile another one retains the context anew. That one has
 * it, be it a new context, until it releases it itself.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

static struct job j;
static pthread_barrier_t released;

static void *releases(void *unused) {
  CK(j.d.primary_release(j.device));
  return unused;
}

static void *retains(void *unused) {
  CUcontext context;
  CUdeviceptr word;
  int value = 0;
  CK(j.d.primary_retain(&context, j.device));
  pthread_barrier_wait(&released);
  CK(j.d.set_current(context));
  CK(j.d.mem_alloc(&word, sizeof value));
  CK(j.d.memset(word, 7, 1));
  CK(j.d.ctx_synchronize());
  CK(j.d.copy_back(&value, word, sizeof value));
  printf("the one that retains it has it: %d\n", value);
  CK(j.d.primary_release(j.device));
  return unused;
}

int main(void) {
  pthread_t one, other;
  CUdeviceptr stop;
  job_begin(&j);
  volatile int *const word = job_mapped_word(&j, &stop);
  CK(job_launch(&j, j.spin, j.stream, &stop, NULL));
  EXPECT(pthread_barrier_init(&released, NULL, 2) == 0);
  EXPECT(pthread_create(&one, NULL, releases, NULL) == 0);
  sleep_ms(50);
  EXPECT(pthread_create(&other, NULL, retains, NULL) == 0);
  sleep_ms(50);
  *word = 1;
  EXPECT(pthread_join(one, NULL) == 0);
  pthread_barrier_wait(&released);
  EXPECT(pthread_join(other, NULL) == 0);
  return 0;
}
