/* The program's thread-local variables take most of a small stack, and a wait lasts so long that the guard reports it.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

/* The C library takes them out of the stack of each thread. */
static _Thread_local volatile char variables[480 << 10];

static volatile int *word;

static void *release(void *unused) {
  (void)unused;
  sleep_ms(1500);
  variables[0] = 1;
  *word = variables[0];
  return NULL;
}

int main(void) {
  struct job j;
  pthread_t thread;
  CUdeviceptr stop;
  job_begin(&j);
  word = job_mapped_word(&j, &stop);
  EXPECT(pthread_create(&thread, NULL, release, NULL) == 0);
  CK(job_launch(&j, j.spin, j.stream, &stop, NULL));
  CK(j.d.stream_synchronize(j.stream));
  EXPECT(pthread_join(thread, NULL) == 0);
  puts("released");
  job_end(&j);
  return 0;
}
