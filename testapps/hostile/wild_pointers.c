/* Passes the calls that take a structure, a list, an image or a name a pointer that leads nowhere, together with something for which the
 * driver refuses them before it follows the pointer: no current context, a handle or a place that is null, a flag or a count that cannot
 * be. Which these are, a card has shown (driver 580, H100). The guard must not follow the pointer either. Prints each result.
 *
 * Bare and guarded: the same results. */
#include "driver.h"
#include <sys/mman.h>

typedef int (*any_call)(uintptr_t, ...);

enum situation { NO_CONTEXT, NULL_HANDLES, NO_PLACE, ALL_VALID, SITUATIONS };
static const char *const SITUATION[] = {"no context", "null handles", "no place"};
enum { POINTERS = 3 };
static const char *const POINTER[] = {"address 8", "unmapped page", "end of a page"};

static struct job job;
static struct handles {
  uintptr_t stream, function, library, module, graph, node, host_node, executable;
} valid, now;
static uintptr_t place[8], out, wild;

/* NC: refused without a context; NH: with handles that are null; NP: without a place for what is made; OK: in any situation. */
enum { NC = 1, NH = 2, NP = 4, ALL = 7 };
#define STREAM_CALLS(X, suffix)                                           \
  X(ALL, "cuStreamBatchMemOp_v2" suffix, now.stream, 300, wild, 0)        \
  X(ALL, "cuStreamBatchMemOp_v2" suffix, now.stream, 1, wild, 0x7fff)     \
  X(NC | NH, "cuLaunchKernelEx" suffix, launch_of(1), now.function, 0, 0) \
  X(ALL, "cuLaunchKernelEx" suffix, launch_of(0xffffffff), now.function, 0, 0) \
  X(ALL, "cuLaunchHostFunc" suffix, wild, 0, 0)
#define CALLS(X)                                                          \
  STREAM_CALLS(X, "")                                                     \
  STREAM_CALLS(X, "_ptsz")                                                \
  X(ALL, "cuLaunchCooperativeKernelMultiDevice", wild, 1, 0x7fff)         \
  X(ALL, "cuLaunchCooperativeKernelMultiDevice", wild, 100000, 0)         \
  X(NH, "cuGraphKernelNodeSetParams", now.node, wild)                     \
  X(NH, "cuGraphKernelNodeSetParams_v2", now.node, wild)                  \
  X(ALL, "cuGraphKernelNodeSetParams_v2", now.host_node, wild)            \
  X(NH, "cuGraphExecKernelNodeSetParams", now.executable, now.node, wild) \
  X(NH, "cuGraphExecKernelNodeSetParams_v2", now.executable, now.node, wild) \
  X(NH, "cuGraphNodeSetParams", now.node, wild)                           \
  X(NH, "cuGraphExecNodeSetParams", now.executable, now.node, wild)       \
  X(NH, "cuGraphHostNodeSetParams", now.host_node, wild)                  \
  X(NH, "cuGraphExecHostNodeSetParams", now.executable, now.host_node, wild) \
  X(NH, "cuGraphHostNodeGetParams", now.host_node, wild)                  \
  X(NC, "cuGraphInstantiateWithFlags", out, wild, 0)                      \
  X(ALL, "cuGraphExecUpdate_v2", 0, wild, (uintptr_t)place)               \
  X(NC | NP, "cuModuleLoad", out, wild)                                   \
  X(NC | NP, "cuModuleLoadData", out, wild)                               \
  X(NC | NP, "cuModuleLoadDataEx", out, wild, 0, 0, 0)                    \
  X(NC | NP, "cuModuleLoadDataEx", out, (uintptr_t)job.code, 1, wild, wild) \
  X(NC | NP, "cuModuleLoadFatBinary", out, wild)                          \
  X(NH | NP, "cuModuleGetFunction", out, now.module, wild)                \
  X(NH, "cuModuleGetGlobal_v2", out, out, now.module, wild)               \
  X(NP, "cuLibraryLoadData", out, wild, 0, 0, 0, 0, 0, 0)                 \
  X(NP, "cuLibraryLoadData", out, (uintptr_t)job.code, wild, wild, 1, 0, 0, 0) \
  X(NP, "cuLibraryLoadData", out, (uintptr_t)job.code, 0, 0, 0, wild, wild, 1) \
  X(NP, "cuLibraryLoadFromFile", out, wild, 0, 0, 0, 0, 0, 0)             \
  X(NH | NP, "cuLibraryGetKernel", out, now.library, wild)                \
  X(NC, "cuEventCreate", wild, 0)

/* A launch with attributes that lead nowhere. */
static uintptr_t launch_of(unsigned attributes) {
  static CUlaunchConfig config;
  config = (CUlaunchConfig){.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
                            .attrs = (void *)wild, .numAttrs = attributes};
  return (uintptr_t)&config;
}

#define COUNT(...) +1
#define NAME(situations, name, ...) name,
#define WHERE(situations, ...) situations,
enum { CALL_COUNT = 0 CALLS(COUNT) };
static const char *const NAMES[] = {CALLS(NAME)};
static const int REFUSED[] = {CALLS(WHERE)};

static any_call function(const char *name) { return (any_call)dlsym(job.d.handle, name); }

static void CUDA_CB nothing(void *data) { (void)data; }

static void make_handles(void) {
  job_begin(&job);
  void *parameters[] = {&job.sum, place};
  const CUDA_KERNEL_NODE_PARAMS kernel = {
      .kern = (CUkernel)job.add, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = parameters};
  const CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
  valid = (struct handles){.stream = (uintptr_t)job.stream, .function = (uintptr_t)job.add, .library = (uintptr_t)job.library};
  CK(function("cuGraphCreate")((uintptr_t)&valid.graph, 0));
  CK(function("cuGraphAddKernelNode_v2")((uintptr_t)&valid.node, valid.graph, 0, 0, (uintptr_t)&kernel));
  CK(function("cuGraphAddHostNode")((uintptr_t)&valid.host_node, valid.graph, 0, 0, (uintptr_t)&host));
  CK(function("cuGraphInstantiateWithFlags")((uintptr_t)&valid.executable, valid.graph, 0));
  CK(function("cuModuleLoadData")((uintptr_t)&valid.module, (uintptr_t)job.code));
}

/* Where there is nothing to read, or too little. */
static uintptr_t nowhere(int pointer) {
  if (pointer == 0) return 8;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(pages != MAP_FAILED && munmap(pages + page, page) == 0);
  return (uintptr_t)(pointer == 1 ? pages + page : pages + page - 4);
}

static int call(int number) {
  int n = 0;
#define MAKE(situations, name, ...) if (n++ == number) return function(name) == NULL ? -1 : function(name)(__VA_ARGS__);
  CALLS(MAKE)
  return -1;
}

static void make(int number, int situation, int pointer) {
  CK(job.d.set_current(situation == NO_CONTEXT ? NULL : job.context));
  now = situation == NULL_HANDLES ? (struct handles){0} : valid;
  out = situation == NO_PLACE ? 0 : (uintptr_t)place;
  wild = nowhere(pointer);
  printf("%s, %s, %s: ", NAMES[number], SITUATION[situation], POINTER[pointer]);
  fflush(stdout);
  printf("%d\n", call(number));
}

int main(void) {
  make_handles();
  for (int number = 0; number < CALL_COUNT; number++)
    for (int situation = 0; situation < SITUATIONS; situation++)
      for (int pointer = 0; pointer < POINTERS; pointer++)
        if (REFUSED[number] & 1 << situation) make(number, situation, pointer);
  fflush(stdout);
  _exit(0);
}
