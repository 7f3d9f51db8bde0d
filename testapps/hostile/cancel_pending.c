/* A cancellation is pending when a thread calls the driver: it takes effect at the first cancellation point that the call reaches.
 * The driver's own are where they are; the guard adds none, neither before the call nor after it.
 *
 * bare and guarded: the same calls return, exit 0. The calls make hazards on purpose, since these are what a hook has most to do
 * for: loads beside work, a wait before its write, copies of pageable memory, a first launch. */
#include <pthread.h>

#include "driver.h"

static struct job j;
static CUstream other;
static CUdeviceptr flag, memory, host_word;
static CUmodule module;
static CUfunction function;
static CUevent event;
static char bytes[4096];
static _Atomic int returned;

#define LATER(result, name, ...) static result (*name)(__VA_ARGS__)
LATER(CUresult, module_load, CUmodule *, const void *);
LATER(CUresult, module_function, CUfunction *, CUmodule, const char *);
LATER(CUresult, module_unload, CUmodule);
LATER(CUresult, proc_address, const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
LATER(CUresult, event_query, CUevent);

static void launch(void) { CK(job_launch(&j, j.nothing, other, 0, 0)); }
static void launch_again(void) { CK(job_launch(&j, j.nothing, other, 0, 0)); }
static void load_module(void) { CK(module_load(&module, j.code)); }
static void get_function(void) { CK(module_function(&function, module, "nothing")); }
static void launch_cold(void) { CK(j.d.launch(function, 1, 1, 1, 1, 1, 1, 0, other, 0, 0)); }
static void wait_value(void) { CK(j.d.wait_value(other, host_word, 7, CU_STREAM_WAIT_VALUE_EQ)); }
static void write_value(void) { CK(j.d.write_value(j.stream, host_word, 7, 0)); }
static void copy(void) { CK(j.d.copy_async(memory, bytes, sizeof bytes, other)); }
static void create_event(void) { CK(j.d.event_create(&event, CU_EVENT_DISABLE_TIMING)); }
static void record_event(void) { CK(j.d.event_record(event, other)); }
static void query_event(void) { event_query(event); }
static void allocate(void) { CK(j.d.mem_alloc(&memory, sizeof bytes)); }
static void look_up(void) {
  void *found = NULL;
  CUdriverProcAddressQueryResult status;
  CK(proc_address("cuLaunchKernel", &found, 12000, 0, &status));
}
static void look_up_by_dlsym(void) { EXPECT(dlsym(j.d.handle, "cuLaunchKernel") != NULL); }
static void create_stream(void) { CK(j.d.stream_create(&other, CU_STREAM_NON_BLOCKING)); }

static void *called(void *what) {
  CK(j.d.set_current(j.context));
  pthread_cancel(pthread_self());
  ((void (*)(void))what)();
  returned = 1;
  pthread_testcancel();
  return NULL;
}

static void pending(const char *name, void (*what)(void)) {
  pthread_t thread;
  void *result;
  returned = 0;
  EXPECT(pthread_create(&thread, NULL, called, (void *)what) == 0);
  EXPECT(pthread_join(thread, &result) == 0);
  EXPECT(result == PTHREAD_CANCELED);
  printf("%s: %s\n", name, returned ? "returned, then cancelled" : "cancelled in the call");
  fflush(stdout);
}

int main(void) {
  job_begin(&j);
#define FIND(name, symbol) EXPECT((name = (__typeof__(name))dlsym(j.d.handle, symbol)) != NULL)
  FIND(module_load, "cuModuleLoadData");
  FIND(module_function, "cuModuleGetFunction");
  FIND(module_unload, "cuModuleUnload");
  FIND(proc_address, "cuGetProcAddress_v2");
  FIND(event_query, "cuEventQuery");
  job_mapped_word(&j, &host_word);
  volatile int *go_on = job_mapped_word(&j, &flag);
  pending("cuStreamCreate", create_stream);
  pending("cuMemAlloc", allocate);
  pending("cuModuleLoadData", load_module);
  pending("cuModuleGetFunction", get_function);
  /* From here on beside a kernel that spins. */
  CK(job_launch(&j, j.spin, j.stream, &flag, 0));
  pending("cuLaunchKernel, the first", launch);
  pending("cuLaunchKernel, again", launch_again);
  pending("cuLaunchKernel, of a module's function", launch_cold);
  pending("cuMemcpyHtoDAsync", copy);
  pending("cuStreamWaitValue32", wait_value);
  pending("cuStreamWriteValue32", write_value);
  pending("cuEventCreate", create_event);
  pending("cuEventRecord", record_event);
  pending("cuEventQuery", query_event);
  pending("cuGetProcAddress", look_up);
  pending("dlsym", look_up_by_dlsym);
  *go_on = 1;
  CK(j.d.ctx_synchronize());
  printf("done\n");
  return 0;
}
