/* A hundred times a stream waits for a value that another stream is made to write only afterwards. Each time it is written in time.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

int main(void) {
  struct job j;
  CUdeviceptr word;
  CUstream waits, writes;
  job_begin(&j);
  volatile int *turn = job_mapped_word(&j, &word);
  CK(j.d.stream_create(&waits, CU_STREAM_NON_BLOCKING));
  CK(j.d.stream_create(&writes, CU_STREAM_NON_BLOCKING));
  for (cuuint32_t n = 1; n <= 100; n++) {
    CK(j.d.wait_value(waits, word, n, CU_STREAM_WAIT_VALUE_GEQ));
    /* A guard learns in a moment, or a second on a busy machine, whether it may look at the word. */
    if (n == 1) usleep(1500 * 1000);
    CK(j.d.write_value(writes, word, n, 0));
    CK(j.d.stream_synchronize(waits));
  }
  printf("turn %d\n", *turn);
  return 0;
}
