/* Trap 15: threads with the smallest stack there may be look functions up, launch and synchronize. The static thread-local data of every
 * preloaded library is taken out of that stack too.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

/* What PTHREAD_STACK_MIN was when it was a constant, as old programs have it compiled in. */
enum { THREADS = 50, STACK_BYTES = 16384 };

static struct job j;

static void *launch(void *unused) {
  (void)unused;
  __typeof__(j.d.launch) launch_again = (__typeof__(j.d.launch))dlsym(j.d.handle, "cuLaunchKernel");
  EXPECT(launch_again == j.d.launch);
  CK(j.d.set_current(j.context));
  CK(job_add(&j, j.stream, 2));
  CK(j.d.stream_synchronize(j.stream));
  return NULL;
}

int main(void) {
  pthread_attr_t small;
  job_begin(&j);
  /* Once on the big stack, so that nothing is loaded on a small one: that is the driver's need and not measured here. */
  CK(job_add(&j, j.stream, 1));
  CK(j.d.stream_synchronize(j.stream));
  EXPECT(pthread_attr_init(&small) == 0);
  EXPECT(pthread_attr_setstacksize(&small, STACK_BYTES) == 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, &small, launch, NULL) == 0);
    pthread_join(thread, NULL);
  }
  printf("sum from small stacks: %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
