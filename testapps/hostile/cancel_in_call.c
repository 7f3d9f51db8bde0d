/* A thread is cancelled while it waits in the driver for a kernel. The unwinding passes through the frames of the guard.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <pthread.h>

#include "driver.h"

static struct job j;

static void *wait_for_stream(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  CK(j.d.stream_synchronize(j.stream));
  return NULL;
}

int main(void) {
  CUdeviceptr flag;
  pthread_t thread;
  void *result;
  job_begin(&j);
  volatile int *word = job_mapped_word(&j, &flag);
  CK(job_launch(&j, j.spin, j.stream, &flag, 0));
  EXPECT(pthread_create(&thread, NULL, wait_for_stream, NULL) == 0);
  sleep_ms(100);
  pthread_cancel(thread);
  sleep_ms(100);
  *word = 1;
  EXPECT(pthread_join(thread, &result) == 0);
  printf("joined: %s\n", result == PTHREAD_CANCELED ? "cancelled" : "finished");
  CK(j.d.ctx_synchronize());
  printf("done\n");
  return 0;
}
