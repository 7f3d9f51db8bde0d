/* A signal's handler jumps out of a driver call that takes too long, to the function that has made it; that sleeps before it calls the driver again.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <setjmp.h>
#include <signal.h>

#include "driver.h"

static sigjmp_buf out;

static void leave(int signal) {
  (void)signal;
  siglongjmp(out, 1);
}

int main(void) {
  struct job j;
  job_begin(&j);
  EXPECT(signal(SIGALRM, leave) != SIG_ERR);
  if (sigsetjmp(out, 1) == 0) {
    ualarm(200000, 0);
    j.d.stream_query(j.stream);
    puts("it returned");
  }
  sleep_ms(3000);
  for (int i = 1; i <= 10; i++) CK(job_add(&j, j.stream, i));
  printf("sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
