/* Trap 1: one thread is blocked in a driver call behind a spinning kernel, another releases that kernel by a driver call. A guard with a
 * lock held across the first call never lets the second through. Once for each call that blocks.
 *
 * The release is cuStreamWriteValue32, which answers while any of these calls is blocked. While a module is loaded it does not, so no
 * such call is among them.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

static struct job j;
static CUstream spinning, releasing;
static CUdeviceptr flag, memory;
static CUevent event;
static CUlibrary unloaded;

static CUresult stream_synchronize(void) { return j.d.stream_synchronize(spinning); }
static CUresult ctx_synchronize(void) { return j.d.ctx_synchronize(); }
static CUresult event_synchronize(void) { return j.d.event_synchronize(event); }
static CUresult mem_free(void) { return j.d.mem_free(memory); }
static CUresult library_unload(void) { return j.d.library_unload(unloaded); }

static CUresult copy_back(void) {
  int sum;
  return j.d.copy_back(&sum, j.sum, sizeof sum);
}

static CUresult pageable_copy(void) {
  static int source;
  return j.d.copy_async(j.sum, &source, sizeof source, spinning);
}

static const struct {
  const char *name;
  CUresult (*call)(void);
} blocking[] = {{"cuStreamSynchronize", stream_synchronize}, {"cuCtxSynchronize", ctx_synchronize},
                {"cuEventSynchronize", event_synchronize},   {"cuMemFree", mem_free},
                {"cuMemcpyDtoH", copy_back},                 {"cuMemcpyHtoDAsync of pageable memory", pageable_copy},
                {"cuLibraryUnload", library_unload}};

static void *release(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  sleep_ms(30);
  CK(j.d.write_value(releasing, flag, 1, 0));
  return NULL;
}

int main(void) {
  job_begin(&j);
  volatile int *const word = job_mapped_word(&j, &flag);
  CK(j.d.stream_create(&spinning, CU_STREAM_DEFAULT));
  CK(j.d.stream_create(&releasing, CU_STREAM_NON_BLOCKING));
  CK(j.d.event_create(&event, CU_EVENT_DISABLE_TIMING));
  CK(j.d.mem_alloc(&memory, 4096));
  CK(j.d.library_load(&unloaded, j.code, NULL, NULL, 0, NULL, NULL, 0));
  CUkernel kernel;
  CK(j.d.library_kernel(&kernel, unloaded, "nothing"));
  CK(job_launch(&j, (CUfunction)kernel, j.stream, NULL, NULL));
  *word = 1;
  CK(job_launch(&j, j.spin, spinning, &flag, NULL));
  CK(j.d.ctx_synchronize());
  for (size_t i = 0; i < sizeof blocking / sizeof *blocking; i++) {
    pthread_t thread;
    *word = 0;
    CK(job_launch(&j, j.spin, spinning, &flag, NULL));
    CK(j.d.event_record(event, spinning));
    EXPECT(pthread_create(&thread, NULL, release, NULL) == 0);
    printf("%s: %d\n", blocking[i].name, (int)blocking[i].call());
    pthread_join(thread, NULL);
    CK(j.d.ctx_synchronize());
  }
  return 0;
}
