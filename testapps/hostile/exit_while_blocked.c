/* main returns while another thread is blocked in cuStreamSynchronize behind a kernel that spins.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

static struct job j;
static atomic_int about_to_block;

static void *block(void *unused) {
  (void)unused;
  j.d.set_current(j.context);
  atomic_store(&about_to_block, 1);
  j.d.stream_synchronize(j.stream);
  return NULL;
}

int main(void) {
  pthread_t thread;
  CUdeviceptr flag;
  job_begin(&j);
  job_mapped_word(&j, &flag);
  CK(job_launch(&j, j.spin, j.stream, &flag, NULL));
  EXPECT(pthread_create(&thread, NULL, block, NULL) == 0);
  while (!atomic_load(&about_to_block)) sleep_ms(1);
  sleep_ms(100);
  puts("main returns");
  return 0;
}
