/* Asks streams and an event a thousand times whether they are ready, as programs do that have nothing else to wait by.
 *
 * Each phase has a stream of its own, so that the harness can tell them apart: one stream by itself; two in turns; an event; one stream with
 * a launch elsewhere after every hundredth question. While a kernel spins the answer is no; then it is yes.
 *
 *   polls [FACTS]
 *
 * bare and guarded: prints the same lines, exit 0. Questions with one answer are one record with a count. */
#include "recorded.h"

enum { POLLS = 1000 };

static struct job j;

struct spinning {
  CUstream stream;
  volatile int *word;
  CUdeviceptr device_word;
};

static struct spinning spin(const char *name) {
  struct spinning s;
  CK(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  s.word = job_mapped_word(&j, &s.device_word);
  CK(job_launch(&j, j.spin, s.stream, &s.device_word, NULL));
  fact_handle(name, s.stream);
  return s;
}

/* Lets the kernel end and waits until it has, without a driver call. */
static void end(const struct spinning *s) {
  CUdeviceptr ended;
  volatile int *const word = job_mapped_word(&j, &ended);
  CK(job_launch(&j, j.release, s->stream, &ended, NULL));
  *s->word = 1;
  while (*word == 0) sleep_ms(1);
  /* The device marks the kernel ended a moment later. */
  sleep_ms(500);
}

static int not_ready(CUresult result) { return result == CUDA_ERROR_NOT_READY; }

int main(int argc, char **argv) {
  int no[4] = {0}, yes[4] = {0};
  facts_open(argc > 1 ? argv[1] : NULL);
  job_begin(&j);
  CK(job_launch(&j, j.nothing, j.stream, NULL, NULL));

  struct spinning alone = spin("alone");
  for (int i = 0; i < POLLS; i++) no[0] += not_ready(cuStreamQuery(alone.stream));
  end(&alone);
  yes[0] += cuStreamQuery(alone.stream) == CUDA_SUCCESS;

  struct spinning first = spin("first"), second = spin("second");
  for (int i = 0; i < POLLS; i++) no[1] += not_ready(cuStreamQuery(first.stream)) + not_ready(cuStreamQuery(second.stream));
  end(&first);
  end(&second);
  yes[1] += (cuStreamQuery(first.stream) == CUDA_SUCCESS) + (cuStreamQuery(second.stream) == CUDA_SUCCESS);

  struct spinning recorded = spin("recorded");
  CUevent event;
  CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CK(cuEventRecord(event, recorded.stream));
  fact_handle("event", event);
  for (int i = 0; i < POLLS; i++) no[2] += not_ready(cuEventQuery(event));
  end(&recorded);
  yes[2] += cuEventQuery(event) == CUDA_SUCCESS;

  struct spinning beside = spin("beside");
  for (int i = 1; i <= POLLS; i++) {
    no[3] += not_ready(cuStreamQuery(beside.stream));
    if (i % 100 == 0) CK(job_launch(&j, j.nothing, j.stream, NULL, NULL));
  }
  end(&beside);
  yes[3] += cuStreamQuery(beside.stream) == CUDA_SUCCESS;

  static const char *const phases[] = {"one stream", "two streams in turns", "an event", "a stream, with launches between"};
  for (int i = 0; i < 4; i++) printf("%s: %d times no, %d times yes\n", phases[i], no[i], yes[i]);
  return 0;
}
