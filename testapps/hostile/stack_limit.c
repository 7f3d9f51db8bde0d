/* The stack limit of contexts, and a kernel that needs much local memory: whatever the program asks for, or sets, has to be as without the guard.
 *
 *   asks      asks for limits: in the primary context, before and after a launch that raises the stack limit, from a thread, in a second context, and after a
 *             reset, where the same kernel is launched again
 *   sets      sets the limit: to what it is while a kernel spins, for which the driver waits for nothing, and then to other values
 *   captured  asks for the limit after a launch that comes after one which is captured
 *   graph     asks for the limit around the calls that make a graph of that kernel, make it executable, and make another executable graph run it
 *   first     sets the limit in the first moment
 *   raised    sets the limit that a launch has raised
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

static struct job j;
static CUresult (*get_limit)(size_t *, CUlimit);
static CUresult (*set_limit)(CUlimit, size_t);
static CUresult (*load)(CUmodule *, const void *);
static CUresult (*unload)(CUmodule);
static CUresult (*function_of)(CUfunction *, CUmodule, const char *);
static void *image;

static void say(const char *when) {
  size_t stack = 7, heap = 7;
  CK(get_limit(&stack, CU_LIMIT_STACK_SIZE));
  CK(get_limit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
  printf("%s: stack %zu, heap %zu\n", when, stack, heap);
}

/* Launches the kernel that needs much local memory, in the current context. */
static void use_much(void) {
  CUmodule module;
  CUfunction many;
  CUdeviceptr one;
  int n = 3;
  CK(load(&module, image));
  CK(function_of(&many, module, "many_locals"));
  job_mapped_word(&j, &one);
  CK(job_launch(&j, many, NULL, &one, &n));
  CK(j.d.ctx_synchronize());
  CK(unload(module));
}

static void *in_a_thread(void *context) {
  CK(j.d.set_current(context));
  say("from a thread");
  return NULL;
}

static void asks(void) {
  CUcontext second;
  CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
  CUresult (*destroy)(CUcontext);
  CUresult (*reset)(CUdevice);
#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(j.d.handle, name)) != NULL)
  FUNCTION(create, "cuCtxCreate_v4");
  FUNCTION(destroy, "cuCtxDestroy_v2");
  FUNCTION(reset, "cuDevicePrimaryCtxReset_v2");
  say("at first");
  printf("to nowhere: %d, of nothing: %d\n", get_limit(NULL, CU_LIMIT_STACK_SIZE), get_limit(&(size_t){0}, 99));
  use_much();
  say("after a launch");
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, in_a_thread, j.context) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  for (int round = 0; round < 2; round++) {
    CK(create(&second, NULL, 0, j.device));
    say("in a second context");
    if (round == 0) CK(set_limit(CU_LIMIT_STACK_SIZE, 4096));
    say("before it goes");
    CK(destroy(second));
    CK(j.d.set_current(j.context));
  }
  say("back in the first");
  CK(reset(j.device));
  CK(j.d.ctx_synchronize());
  say("after a reset");
  use_much();
  say("after a launch");
}

/* Sets the limit to what it is, while a kernel spins. */
static void set_to_what_it_is(size_t limit) {
  CUdeviceptr stop;
  volatile int *const word = job_mapped_word(&j, &stop);
  CK(job_launch(&j, j.spin, j.stream, &stop, NULL));
  CK(set_limit(CU_LIMIT_STACK_SIZE, limit));
  say("set to what it is, while a kernel spins");
  *word = 1;
  CK(j.d.ctx_synchronize());
}

static void sets(void) {
  size_t before = 0;
  CK(get_limit(&before, CU_LIMIT_STACK_SIZE));
  say("at first");
  set_to_what_it_is(before);
  CK(set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
  say("another limit");
  CK(set_limit(CU_LIMIT_STACK_SIZE, 2 * before));
  say("twice that");
  use_much();
  say("after a launch");
  CK(set_limit(CU_LIMIT_STACK_SIZE, before));
  say("as at first");
  CK(set_limit(CU_LIMIT_STACK_SIZE, 32768));
  say("as much as the kernel needs");
}

/* Sets the limit that a launch has raised: to what it is by then, while a kernel spins, and to what it was at first. */
static void raised(void) {
  size_t before = 0, after = 0;
  CK(get_limit(&before, CU_LIMIT_STACK_SIZE));
  use_much();
  CK(get_limit(&after, CU_LIMIT_STACK_SIZE));
  say("after a launch");
  set_to_what_it_is(after);
  CK(set_limit(CU_LIMIT_STACK_SIZE, after - 1));
  say("one byte less, which is rounded up");
  CK(set_limit(CU_LIMIT_STACK_SIZE, before));
  say("as at first");
  use_much();
  say("after another launch");
  CK(set_limit(CU_LIMIT_STACK_SIZE, 1000));
  say("1000");
}

/* Of a kernel that a thread knows from a launch that it has captured, the next launch is the first one. */
static void captured(void) {
  CUresult (*begin)(CUstream, CUstreamCaptureMode), (*end)(CUstream, CUgraph *), (*destroy)(CUgraph);
  CUmodule module;
  CUfunction many;
  CUdeviceptr one;
  CUgraph graph;
  int n = 3;
  FUNCTION(begin, "cuStreamBeginCapture_v2");
  FUNCTION(end, "cuStreamEndCapture");
  FUNCTION(destroy, "cuGraphDestroy");
  CK(load(&module, image));
  CK(function_of(&many, module, "many_locals"));
  job_mapped_word(&j, &one);
  CK(begin(j.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CK(job_launch(&j, many, j.stream, &one, &n));
  CK(end(j.stream, &graph));
  CK(destroy(graph));
  CK(job_launch(&j, many, j.stream, &one, &n));
  CK(j.d.ctx_synchronize());
  say("after a launch");
}

static CUgraph captured_graph(CUfunction function, void *first_parameter, void *second_parameter) {
  CUresult (*begin)(CUstream, CUstreamCaptureMode), (*end)(CUstream, CUgraph *);
  CUgraph graph;
  FUNCTION(begin, "cuStreamBeginCapture_v2");
  FUNCTION(end, "cuStreamEndCapture");
  CK(begin(j.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CK(job_launch(&j, function, j.stream, first_parameter, second_parameter));
  CK(end(j.stream, &graph));
  return graph;
}

/* The kernel is launched by graphs alone. */
static void graph(void) {
  CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long), (*launch)(CUgraphExec, CUstream);
  CUresult (*update)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *), (*reset)(CUdevice);
  CUmodule module;
  CUfunction many, step;
  CUdeviceptr one;
  CUgraphExec executable;
  CUgraphExecUpdateResultInfo info;
  int n = 3;
  FUNCTION(instantiate, "cuGraphInstantiateWithFlags");
  FUNCTION(launch, "cuGraphLaunch");
  FUNCTION(update, "cuGraphExecUpdate_v2");
  FUNCTION(reset, "cuDevicePrimaryCtxReset_v2");
  for (int round = 0; round < 2; round++) {
    CK(load(&module, image));
    CK(function_of(&many, module, "many_locals"));
    CK(function_of(&step, module, "step"));
    job_mapped_word(&j, &one);
    const CUgraph graph = captured_graph(many, &one, &n);
    say("after a capture");
    if (round == 0) {
      CK(instantiate(&executable, graph, 0));
      say("after it was made executable");
    } else {
      CK(instantiate(&executable, captured_graph(step, &one, NULL), 0));
      say("after another one was made executable");
      CK(update(executable, graph, &info));
      say("after that was updated");
    }
    CK(launch(executable, j.stream));
    CK(j.d.ctx_synchronize());
    say("after a launch");
    CK(reset(j.device));
    CK(j.d.stream_create(&j.stream, CU_STREAM_NON_BLOCKING));
  }
}

static void first(void) {
  CK(set_limit(CU_LIMIT_STACK_SIZE, 2048));
  say("set");
  use_much();
  say("after a launch");
}

int main(int argc, char **argv) {
  const struct driver d = driver_open();
  const char *does = argc > 1 ? argv[1] : "asks";
  j.d = d;
  CK(d.init(0));
  CK(d.device_get(&j.device, 0));
  CK(d.primary_retain(&j.context, j.device));
  CK(d.set_current(j.context));
  FUNCTION(get_limit, "cuCtxGetLimit");
  FUNCTION(set_limit, "cuCtxSetLimit");
  FUNCTION(load, "cuModuleLoadData");
  FUNCTION(unload, "cuModuleUnload");
  FUNCTION(function_of, "cuModuleGetFunction");
  image = driver_image(&d, "corpus");
  if (!strcmp(does, "first")) first();
  if (!strcmp(does, "asks")) asks();
  CK(d.stream_create(&j.stream, CU_STREAM_NON_BLOCKING));
  if (!strcmp(does, "captured")) captured();
  if (!strcmp(does, "graph")) graph();
  if (!strcmp(does, "sets") || !strcmp(does, "raised")) {
    j.code = driver_image(&d, "job");
    CK(d.library_load(&j.library, j.code, NULL, NULL, 0, NULL, NULL, 0));
    j.spin = job_kernel(&j, "spin");
    if (!strcmp(does, "sets")) sets();
    if (!strcmp(does, "raised")) raised();
  }
  free(image);
  return 0;
}
