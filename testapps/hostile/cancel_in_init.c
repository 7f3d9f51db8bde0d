/* A thread with a pending cancellation initialises the driver. The cancellation strikes where the program asks for it, not in what the
 * guard does meanwhile: its files and sleeps are cancellation points as well.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <pthread.h>

#include "driver.h"

static struct driver d;

static void *initialise(void *unused) {
  (void)unused;
  pthread_cancel(pthread_self());
  CK(d.init(0));
  printf("initialised\n");
  pthread_testcancel();
  printf("not cancelled\n");
  return NULL;
}

int main(void) {
  pthread_t thread;
  void *result;
  d = driver_open();
  EXPECT(pthread_create(&thread, NULL, initialise, NULL) == 0);
  EXPECT(pthread_join(thread, &result) == 0);
  printf("joined: %s\n", result == PTHREAD_CANCELED ? "cancelled" : "finished");
  return 0;
}
