/* The plugin of trap03_constructor_thread. The first launch is made before the thread starts: whatever the driver itself loads for it is
 * then loaded, and the thread needs nothing of the loader. */
#include "driver.h"

int constructor_sum = -1;
static struct job j;

static void *launch(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  CK(job_add(&j, j.stream, 3));
  CK(j.d.stream_synchronize(j.stream));
  /* Functions that have not been called before: a guard that resolves each at its first call would want the loader here. */
  CUevent event;
  CK(j.d.event_create(&event, CU_EVENT_DISABLE_TIMING));
  CK(j.d.event_record(event, j.stream));
  CK(j.d.event_synchronize(event));
  CK(j.d.stream_query(j.stream));
  return NULL;
}

__attribute__((constructor)) static void construct(void) {
  pthread_t thread;
  job_begin(&j);
  CK(job_add(&j, j.stream, 2));
  CK(j.d.stream_synchronize(j.stream));
  EXPECT(pthread_create(&thread, NULL, launch, NULL) == 0);
  pthread_join(thread, NULL);
  constructor_sum = job_sum(&j);
}
