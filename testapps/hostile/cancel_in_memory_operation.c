/* A thread is cancelled while it blocks in a stream memory operation, because the stream's queue is full. What the hook
 * keeps across the call must not stop the unwinding.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <pthread.h>

#include "driver.h"

enum { MOST = 100000 };

static struct job j;
static CUdeviceptr word;
static CUresult (*batch)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
static _Atomic int submitted;

static void *writes(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  for (int i = 0; i < MOST; i++, submitted++) CK(j.d.write_value(j.stream, word, 1, 0));
  return NULL;
}

static void *batches(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  for (int i = 0; i < MOST; i++, submitted++) {
    CUstreamBatchMemOpParams one[2];
    memset(one, 0, sizeof one);
    for (int n = 0; n < 2; n++) {
      one[n].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      one[n].writeValue.address = word;
      one[n].writeValue.value = 1;
    }
    CK(batch(j.stream, 2, one, 0));
  }
  return NULL;
}

static void cancel(const char *what, void *(*body)(void *)) {
  CUdeviceptr flag;
  pthread_t thread;
  void *result;
  volatile int *go_on = job_mapped_word(&j, &flag);
  CK(job_launch(&j, j.spin, j.stream, &flag, 0));
  submitted = 0;
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  /* The queue is full once nothing has been submitted for a while. */
  for (int before = -1; before != submitted || before == 0; sleep_ms(100)) before = submitted;
  pthread_cancel(thread);
  sleep_ms(100);
  *go_on = 1;
  EXPECT(pthread_join(thread, &result) == 0);
  printf("%s: %s\n", what, result == PTHREAD_CANCELED ? "cancelled" : "finished");
  CK(j.d.ctx_synchronize());
}

int main(void) {
  job_begin(&j);
  word = j.sum;
  batch = (__typeof__(batch))dlsym(j.d.handle, "cuStreamBatchMemOp_v2");
  EXPECT(batch != NULL);
  cancel("cuStreamWriteValue32", writes);
  cancel("cuStreamBatchMemOp", batches);
  job_end(&j);
  printf("done\n");
  return 0;
}
