/* Killed by SIGKILL while the main thread is blocked in cuStreamSynchronize behind a kernel that spins.
 *
 * bare and guarded: prints the same line, ends by signal 9. What was recorded before is readable, the open call included. */
#include <signal.h>

#include "driver.h"

static void *kill_the_process(void *unused) {
  (void)unused;
  sleep_ms(300);
  kill(getpid(), SIGKILL);
  return NULL;
}

int main(void) {
  struct job j;
  pthread_t killer;
  CUdeviceptr flag;
  job_begin(&j);
  job_mapped_word(&j, &flag);
  CK(job_launch(&j, j.spin, j.stream, &flag, NULL));
  puts("blocked until killed");
  fflush(stdout);
  EXPECT(pthread_create(&killer, NULL, kill_the_process, NULL) == 0);
  CK(j.d.stream_synchronize(j.stream));
  puts("the kernel ended by itself");
  return 0;
}
