/* One of each kind of event that a recording holds, with arguments that tell them apart, and notes what the harness cannot know.
 *
 *   every_event [FACTS]
 *
 * bare and guarded: prints the same lines, exit 0. Each call has its record with these very arguments; a quick allocation has none, and the
 * free that has to wait for a kernel has one. */
#include "recorded.h"

static struct job j;
static CUstream second;

static void *release_soon(void *word) {
  sleep_ms(1000);
  *(volatile int *)word = 1;
  return NULL;
}

static void host_function(void *ran) { *(volatile int *)ran = 1; }

/* The first use of a library, the first of one more of its kernels, and one of a kernel that is loaded. */
static void launches(void) {
  CUdeviceptr sum = j.sum;
  int value = 1;
  void *parameters[] = {&sum, &value, NULL};
  CK(cuLaunchKernel(j.add, 3, 2, 1, 4, 2, 2, 0, j.stream, parameters, NULL));
  CK(cuLaunchKernel(j.nothing, 7, 1, 1, 1, 1, 1, 0, j.stream, NULL, NULL));
  CK(cuLaunchKernel(j.add, 5, 3, 2, 2, 1, 1, 256, second, parameters, NULL));
  CK(cuStreamSynchronize(j.stream));
  CK(cuStreamSynchronize(second));
}

static void memory_operations(void) {
  CUdeviceptr words;
  CUstreamBatchMemOpParams batch[2] = {0};
  const cuuint64_t wide = (cuuint64_t)1 << 40;
  CK(cuMemAlloc(&words, 64));
  CK(cuMemsetD32(words, 0, 16));
  fact("words", words);
  CK(cuStreamWriteValue32(j.stream, words, 7, 0));
  CK(cuStreamWaitValue32(second, words, 7, CU_STREAM_WAIT_VALUE_EQ));
  CK(cuStreamWriteValue64(j.stream, words + 8, wide, 0));
  CK(cuStreamWaitValue64(second, words + 8, wide, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamWaitValue64(second, words + 8, wide, CU_STREAM_WAIT_VALUE_AND));
  CK(cuStreamWaitValue32(second, words, 1, CU_STREAM_WAIT_VALUE_NOR));
  batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  batch[0].writeValue.address = words + 16;
  batch[0].writeValue.value = 3;
  batch[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  batch[1].waitValue.address = words + 24;
  batch[1].waitValue.value64 = 0;
  batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  CK(cuStreamBatchMemOp(second, 2, batch, 0));
  CK(cuStreamSynchronize(second));
}

static void events(void) {
  CUevent event;
  CK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  fact_handle("event", event);
  CK(cuEventRecord(event, j.stream));
  CK(cuStreamWaitEvent(second, event, 0));
  CK(cuEventSynchronize(event));
  CK(cuEventQuery(event));
  float milliseconds;
  CK(cuEventElapsedTime(&milliseconds, event, event));
  CK(cuStreamSynchronize(second));
  CK(cuEventDestroy(event));
}

static void copies(void) {
  static char bytes[1000];
  CUdeviceptr here, there;
  CK(cuMemAlloc(&here, sizeof bytes));
  CK(cuMemAlloc(&there, sizeof bytes));
  CK(cuMemcpyHtoD(here, bytes, 100));
  CK(cuMemcpyDtoH(bytes, here, 200));
  CK(cuMemcpyHtoDAsync(here, bytes, 300, j.stream));
  CK(cuMemcpyDtoHAsync(bytes, here, 400, j.stream));
  CK(cuMemcpyDtoDAsync(there, here, 500, second));
  CK(cuMemsetD8(here, 1, 600));
  CK(cuMemsetD32Async(there, 1, 175, second));
  CK(cuCtxSynchronize());
}

static void host_functions(void) {
  volatile int ran = 0;
  CK(cuLaunchHostFunc(j.stream, host_function, (void *)&ran));
  CK(cuStreamSynchronize(j.stream));
  EXPECT(ran == 1);
}

static void allocations(void) {
  CUdeviceptr quick, freed, pooled, flag;
  pthread_t thread;
  volatile int *const word = job_mapped_word(&j, &flag);
  CK(cuMemAlloc(&quick, 800));
  CK(cuMemAlloc(&freed, 900));
  fact("quick", quick);
  fact("freed", freed);
  CK(job_launch(&j, j.spin, j.stream, &flag, NULL));
  EXPECT(pthread_create(&thread, NULL, release_soon, (void *)word) == 0);
  CK(cuMemFree(freed));
  EXPECT(*word == 1);
  pthread_join(thread, NULL);
  CK(cuMemFree(quick));
  CK(cuMemAllocAsync(&pooled, 700, second));
  fact("pooled", pooled);
  CK(cuMemFreeAsync(pooled, second));
  CK(cuStreamSynchronize(second));
}

/* Calls that may have to wait for the context or for another process. Which of them the driver carries out is its own affair: what is asked of it harms nothing. */
static void may_wait(void) {
  unsigned flags;
  size_t offset, bytes;
  CUdeviceptr memory;
  CUevent event;
  CUgreenCtx green;
  CUmemoryPool pool;
  CUgraph empty;
  CUmemGenericAllocationHandle shared;
  CUmemAccessDesc access = {0};
  CUipcMemHandle memory_handle = {{0}};
  CUipcEventHandle event_handle = {{0}};
  CUmemPoolPtrExportData pool_handle = {{0}};
  CK(cuCtxGetFlags(&flags));
  CK(cuCtxSetFlags(flags));
  CK(cuKernelGetParamInfo((CUkernel)j.add, 0, &offset, &bytes));
  (void)cuCtxEnablePeerAccess(j.context, 0);
  (void)cuCtxDisablePeerAccess(j.context);
  (void)cuGreenCtxCreate(&green, NULL, j.device, 0);
  (void)cuArrayDestroy(NULL);
  (void)cuMipmappedArrayDestroy(NULL);
  (void)cuMemMap(0, 0, 0, 0, 0);
  (void)cuMemUnmap(0, 0);
  (void)cuMemSetAccess(0, 0, &access, 0);
  (void)cuIpcGetMemHandle(&memory_handle, 0);
  (void)cuIpcGetEventHandle(&event_handle, NULL);
  (void)cuMemExportToShareableHandle(&shared, 0, CU_MEM_HANDLE_TYPE_FABRIC, 0);
  (void)cuMemPoolExportPointer(&pool_handle, 0);
  (void)cuMemPoolImportPointer(&memory, NULL, &pool_handle);
  (void)cuIpcOpenMemHandle(&memory, memory_handle, 0);
  (void)cuIpcOpenEventHandle(&event, event_handle);
  (void)cuIpcCloseMemHandle(0);
  (void)cuMemImportFromShareableHandle(&shared, NULL, CU_MEM_HANDLE_TYPE_FABRIC);
  (void)cuMulticastAddDevice(0, j.device);
  (void)cuMulticastBindMem(0, 0, 0, 0, 0, 0);
  (void)cuMulticastBindAddr(0, 0, 0, 0, 0);
  CK(cuDeviceGetDefaultMemPool(&pool, j.device));
  CK(cuMemPoolTrimTo(pool, 0));
  CK(cuGraphCreate(&empty, 0));
  CK(cuGraphDestroy(empty));
}

static void links(void) {
  static char text[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry linked()\n{\n  ret;\n}\n";
  CUlinkState link;
  void *linked;
  size_t bytes;
  CK(cuLinkCreate(0, NULL, NULL, &link));
  CK(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, sizeof text, "text", 0, NULL, NULL));
  EXPECT(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere", 0, NULL, NULL) != CUDA_SUCCESS);
  CK(cuLinkComplete(link, &linked, &bytes));
  EXPECT(linked != NULL && bytes > 0);
  CK(cuLinkDestroy(link));
}

/* A graph of a node of each kind that something may be waited for in, updated by itself. */
static void makes_graph(void) {
  static int ran;
  CUgraph graph;
  CUgraphNode host, event_wait, waits;
  CUgraphExec executable;
  CUgraphExecUpdateResultInfo updated;
  CUevent event;
  CUstreamBatchMemOpParams wait = {0};
  CUDA_HOST_NODE_PARAMS call = {host_function, &ran};
  CUDA_BATCH_MEM_OP_NODE_PARAMS operations = {j.context, 1, &wait, 0};
  CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = j.sum;
  wait.waitValue.value = 0;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  CK(cuGraphCreate(&graph, 0));
  CK(cuGraphAddHostNode(&host, graph, NULL, 0, &call));
  CK(cuGraphAddEventWaitNode(&event_wait, graph, &host, 1, event));
  CK(cuGraphAddBatchMemOpNode(&waits, graph, &event_wait, 1, &operations));
  CK(cuGraphInstantiate(&executable, graph, 0));
  fact_handle("graph", executable);
  fact("graph_function", (unsigned long long)(uintptr_t)host_function);
  CK(cuGraphExecUpdate(executable, graph, &updated));
  CK(cuGraphLaunch(executable, second));
  CK(cuStreamSynchronize(second));
  EXPECT(ran == 1);
  CK(cuGraphExecDestroy(executable));
}

static void captures(void) {
  CUgraph graph;
  CUgraphExec executable;
  CK(cuStreamBeginCapture(j.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CK(cuLaunchKernel(j.nothing, 11, 1, 1, 1, 1, 1, 0, j.stream, NULL, NULL));
  CK(cuStreamEndCapture(j.stream, &graph));
  CK(cuGraphInstantiate(&executable, graph, 0));
  CK(cuGraphLaunch(executable, j.stream));
  CK(cuStreamSynchronize(j.stream));
  makes_graph();
}

static void lives(void) {
  CUcontext context, current;
  CUstream stream;
  CK(cuStreamDestroy(second));
  CK(cuCtxCreate(&context, NULL, 0, j.device));
  CK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  fact_handle("other", stream);
  CK(cuStreamDestroy(stream));
  CK(cuCtxPopCurrent(&current));
  CK(cuCtxDestroy(context));
  CK(cuCtxSetCurrent(j.context));
  CK(cuLibraryUnload(j.library));
}

int main(int argc, char **argv) {
  facts_open(argc > 1 ? argv[1] : NULL);
  fact("thread", (unsigned long long)own_thread());
  counted_begin(&j);
  CK(cuStreamCreateWithPriority(&second, CU_STREAM_DEFAULT, 0));
  fact_handle("stream", j.stream);
  fact_handle("second", second);
  fact_handle("library", j.library);
  static const struct {
    const char *what;
    void (*make)(void);
  } kinds[] = {{"launches", launches},       {"memory operations", memory_operations}, {"events", events}, {"copies", copies},
               {"host functions", host_functions}, {"allocations", allocations},       {"calls that may wait", may_wait}, {"links", links},
               {"captures", captures},       {"lives", lives}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    kinds[i].make();
    puts(kinds[i].what);
  }
  return 0;
}
