/* The device's memory is used up. A guard that loads modules and libraries ahead, by a profile of runs that have used them, takes device memory for
 * what this run may never ask for: a call that finds memory without the guard has to find it with the guard.
 *
 *   uses       loads and uses modules and libraries, which the other runs do not
 *   allocates  allocates all the memory that the device has without them
 *   in_stream  the same in the order of a stream
 *   loads      allocates all but what the modules take that it loads then, which are others
 *   spins      allocates while a kernel spins, for which an unload would wait
 *   polls      asks for more than is left, again and again, while a kernel spins
 *   graphs     makes a graph executable and launches it, and prints what it is answered
 *   second     allocates all the memory that the device has without them, in a second context
 *   threads    allocates all but what they take, and the rest from eight threads, which find no memory at the same time
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too; but where a kernel spins, it prints what the driver answers. */
#include "modules.h"

enum { MODULES = 8, MEBIBYTE = 1 << 20, POLLS = 2000 };

static size_t all_of_the_device(void) {
  CUresult (*memory_info)(size_t *, size_t *);
  size_t free_bytes, total;
  FUNCTION(memory_info, "cuMemGetInfo_v2");
  CK(memory_info(&free_bytes, &total));
  return total;
}

static void uses(void *image) {
  CUmodule modules[MODULES];
  CUlibrary libraries[MODULES];
  for (int n = 0; n < MODULES; n++) CK(load(&modules[n], image));
  for (int n = 0; n < MODULES; n++) use("a module", modules[n]);
  for (int n = 0; n < MODULES; n++) CK(j.d.library_load(&libraries[n], image, NULL, NULL, 0, NULL, NULL, 0));
  for (int n = 0; n < MODULES; n++) {
    CUkernel set;
    CK(j.d.library_kernel(&set, libraries[n], "k2"));
    CK(job_launch(&j, (CUfunction)set, NULL, NULL, NULL));
  }
  CK(j.d.ctx_synchronize());
}

static void allocates(size_t bytes) {
  CUdeviceptr memory = 0;
  printf("cuMemAlloc: %d\n", j.d.mem_alloc(&memory, bytes));
}

static void in_stream(size_t bytes) {
  CUresult (*allocate)(CUdeviceptr *, size_t, CUstream), (*release)(CUdeviceptr, CUstream);
  CUdeviceptr memory = 0;
  FUNCTION(allocate, "cuMemAllocAsync");
  FUNCTION(release, "cuMemFreeAsync");
  const int result = allocate(&memory, bytes, j.stream);
  printf("cuMemAllocAsync: %d\n", result);
  if (result == 0) CK(release(memory, j.stream));
  CK(j.d.stream_synchronize(j.stream));
}

static void loads(size_t bytes) {
  CUdeviceptr memory;
  CUmodule modules[MODULES];
  void *other = driver_image(&j.d, "corpus_other");
  CK(j.d.mem_alloc(&memory, bytes - 2 * MEBIBYTE));
  for (int n = 0; n < MODULES; n++) printf("cuModuleLoadData: %d\n", load(&modules[n], other));
  CK(j.d.mem_free(memory));
  free(other);
}

static void polls(size_t bytes) {
  CUdeviceptr memory = 0;
  int refused = 0;
  for (int n = 0; n < POLLS; n++) refused += j.d.mem_alloc(&memory, bytes) != 0;
  printf("%d of %d refused\n", refused, POLLS);
}

static void spins(void (*what)(size_t), size_t bytes) {
  CUdeviceptr stop;
  volatile int *const word = job_mapped_word(&j, &stop);
  j.code = driver_image(&j.d, "job");
  CK(j.d.library_load(&j.library, j.code, NULL, NULL, 0, NULL, NULL, 0));
  j.spin = job_kernel(&j, "spin");
  CK(job_launch(&j, j.spin, j.stream, &stop, NULL));
  what(bytes);
  *word = 1;
  CK(j.d.ctx_synchronize());
}

static void graphs(void) {
  CUgraph graph;
  CUgraphExec executable;
  CK(j.d.begin_capture(j.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CK(j.d.end_capture(j.stream, &graph));
  const int made = j.d.graph_instantiate(&executable, graph, 0);
  printf("cuGraphInstantiate: %d\n", made);
  if (made == 0) printf("cuGraphLaunch: %d\n", j.d.graph_launch(executable, j.stream));
  CK(j.d.ctx_synchronize());
}

static void second(size_t bytes) {
  CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
  CUcontext context;
  FUNCTION(create, "cuCtxCreate_v4");
  CK(create(&context, NULL, 0, j.device));
  allocates(bytes);
}

enum { THREADS = 8, PIECES = 64, PIECE = 128 << 10 };
static pthread_barrier_t all_threads;
static atomic_int found;

static void *takes_pieces(void *context) {
  CK(j.d.set_current(context));
  for (int n = 0; n < PIECES; n++) {
    CUdeviceptr piece;
    pthread_barrier_wait(&all_threads);
    found += j.d.mem_alloc(&piece, PIECE) == CUDA_SUCCESS;
  }
  return NULL;
}

static void in_threads(size_t bytes) {
  CUdeviceptr memory;
  pthread_t threads[THREADS];
  CK(j.d.mem_alloc(&memory, bytes - (size_t)THREADS * PIECES * PIECE));
  EXPECT(pthread_barrier_init(&all_threads, NULL, THREADS) == 0);
  for (int n = 0; n < THREADS; n++) EXPECT(pthread_create(&threads[n], NULL, takes_pieces, j.context) == 0);
  for (int n = 0; n < THREADS; n++) EXPECT(pthread_join(threads[n], NULL) == 0);
  printf("%d of %d pieces\n", found, THREADS * PIECES);
}

int main(int argc, char **argv) {
  const char *does = argc > 1 ? argv[1] : "uses";
  const struct driver d = driver_open();
  j.d = d;
  CK(d.init(0));
  CK(d.device_get(&j.device, 0));
  CK(d.primary_retain(&j.context, j.device));
  CK(d.set_current(j.context));
  CK(d.stream_create(&j.stream, CU_STREAM_NON_BLOCKING));
  FUNCTION(load, "cuModuleLoadData");
  FUNCTION(function_of, "cuModuleGetFunction");
  FUNCTION(global_of, "cuModuleGetGlobal_v2");
  void *image = driver_image(&d, "lazy_pair");
  if (!strcmp(does, "uses")) uses(image);
  if (!strcmp(does, "allocates")) allocates(all_of_the_device());
  if (!strcmp(does, "in_stream")) in_stream(all_of_the_device());
  if (!strcmp(does, "loads")) loads(all_of_the_device());
  if (!strcmp(does, "graphs")) graphs();
  if (!strcmp(does, "second")) second(all_of_the_device());
  if (!strcmp(does, "threads")) in_threads(all_of_the_device());
  if (!strcmp(does, "spins")) spins(allocates, all_of_the_device() - MEBIBYTE);
  if (!strcmp(does, "polls")) spins(polls, all_of_the_device());
  free(image);
  return 0;
}
