/* exit() is called by a second thread while the main thread is in the middle of launching.
 *
 * bare and guarded: prints the same line, exit 9. */
#include "driver.h"

static struct job j;

static void *leave(void *unused) {
  (void)unused;
  sleep_ms(50);
  puts("leaving from a second thread");
  exit(9);
}

int main(void) {
  pthread_t thread;
  job_begin(&j);
  EXPECT(pthread_create(&thread, NULL, leave, NULL) == 0);
  /* The results are not looked at: once exit has begun, a driver may answer that it is being shut down. */
  for (;;) {
    job_launch(&j, j.nothing, j.stream, NULL, NULL);
    j.d.stream_synchronize(j.stream);
  }
}
