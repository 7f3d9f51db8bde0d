// calls-during-a-blocked-call.txt and calls-during-further-blocked-calls.tsv: one thread is blocked inside the driver; which calls
// still answer on another?
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "conformance.hpp"

namespace conformance {
namespace {

using lg::launch_one;

struct Bench {
  CUmodule module = nullptr, loading = nullptr;
  CUfunction spin = nullptr, warm = nullptr;
  CUstream s[8] = {};
  CUevent idle = nullptr, busy = nullptr;
  lg::MappedWord word;
  CUdeviceptr to_free = 0;
  CUkernel cold = nullptr, warm_kernel = nullptr, cold_kernel = nullptr;
  CUlibrary library = nullptr;  // its module is in the context
  std::vector<char> pageable;
  char *pinned = nullptr;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUstream spare_stream = nullptr;
  CUevent spare_event = nullptr;
  std::vector<CUdeviceptr> from_stream;  // allocated in stream order, for rows that free

  CUDA_KERNEL_NODE_PARAMS node_parameters() {
    static CUdeviceptr argument = device().buffer;
    static void *arguments[] = {&argument};
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = warm;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    return p;
  }
};

// A call that blocks while a kernel spins: what it needs, and itself.
struct Blocker {
  std::function<void()> prepare;
  std::function<CUresult()> call;
};

std::map<std::string, Blocker> blockers(Bench &b) {
  const auto image = device().image.data();
  const CUdeviceptr buf = device().buffer;
  return {
      {"modload", {[] {}, [=, &b] { return cuModuleLoadData(&b.loading, image); }}},
      {"coldlaunch",
       {[=, &b] {
          CUlibrary library;
          CK(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
          CK(cuLibraryGetKernel(&b.cold, library, "cold20"));
        },
        [=, &b] { return launch_one(reinterpret_cast<CUfunction>(b.cold), b.s[1], buf); }}},
      {"memfree", {[&b] { CK(cuMemAlloc(&b.to_free, 4096)); }, [&b] { return cuMemFree(b.to_free); }}},
      {"ctxsync", {[] {}, [] { return cuCtxSynchronize(); }}},
      {"module_load", {[] {}, [=, &b] { return cuModuleLoadData(&b.loading, image); }}},
      {"full_queue", {[] {}, [=, &b] {
         CUresult r = CUDA_SUCCESS;
         for (int i = 0; i < 1600 && r == CUDA_SUCCESS; i++) r = launch_one(b.warm, b.s[0], buf);
         return r;
       }}},
      {"pageable_copy", {[] {}, [=, &b] { return cuMemcpyDtoHAsync(b.pageable.data(), buf, 4096, b.s[0]); }}},
  };
}

struct Call {
  std::function<CUresult()> call;
  std::function<void()> prepare, clean_up;
};

std::map<std::string, Call> calls(Bench &b) {
  const CUdeviceptr buf = device().buffer;
  const CUdevice dev = device().session.device;
  const CUcontext context = device().session.context;
  const auto image = device().image.data();
  const auto none = [] {};
  std::map<std::string, Call> all;
  auto add = [&](const char *name, std::function<CUresult()> call, std::function<void()> prepare = [] {},
                 std::function<void()> clean_up = [] {}) { all[name] = {call, prepare, clean_up}; };
  add("cuStreamQuery(idle)", [&b] { return cuStreamQuery(b.s[2]); });
  add("cuStreamQuery(busy)", [&b] { return cuStreamQuery(b.s[0]); });
  add("cuEventQuery(idle)", [&b] { return cuEventQuery(b.idle); });
  add("cuEventQuery(busy)", [&b] { return cuEventQuery(b.busy); });
  add("cuCtxGetCurrent", [] { CUcontext c; return cuCtxGetCurrent(&c); });
  add("cuDeviceGetAttribute", [=] { int v; return cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev); });
  add("cuCtxGetLimit", [] { size_t v; return cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE); });
  add("cuMemGetInfo", [] { size_t free, total; return cuMemGetInfo(&free, &total); });
  add("cuFuncIsLoaded", [&b] { CUfunctionLoadingState s; return cuFuncIsLoaded(&s, b.warm); });
  add("cuFuncGetName", [&b] { const char *n; return cuFuncGetName(&n, b.warm); });
  add("cuFuncGetAttribute(warm)", [&b] { int v; return cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, b.warm); });
  add("cuStreamIsCapturing", [&b] { CUstreamCaptureStatus s; return cuStreamIsCapturing(b.s[3], &s); });
  add("cuStreamGetCtx", [&b] { CUcontext c; return cuStreamGetCtx(b.s[3], &c); });
  add("cuPointerGetAttribute", [=] { unsigned v; return cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buf); });
  add("cuLaunchKernel(warm)", [=, &b] { return launch_one(b.warm, b.s[3], buf); });
  add("cuStreamWriteValue32", [=, &b] { return cuStreamWriteValue32(b.s[4], buf + 64, 1, 0); });
  add("cuMemcpyDtoHAsync(pinned)", [=, &b] { return cuMemcpyDtoHAsync(const_cast<int *>(b.word.host), buf, 4, b.s[5]); });
  add("cuEventRecord", [&b] { return cuEventRecord(b.idle, b.s[6]); });
  add("cuMemAlloc", [] { CUdeviceptr p; return cuMemAlloc(&p, 4096); });
  add("cuStreamCreate", [] { CUstream s; return cuStreamCreate(&s, CU_STREAM_NON_BLOCKING); });
  add("cuModuleGetFunction(warm)", [&b] { CUfunction f; return cuModuleGetFunction(&f, b.module, "warm"); });
  add("cuCtxGetDevice", [] { CUdevice d; return cuCtxGetDevice(&d); });
  add("cuDriverGetVersion", [] { int v; return cuDriverGetVersion(&v); });
  add("cuStreamSynchronize(idle)", [&b] { return cuStreamSynchronize(b.s[7]); });

  // What only the second table asks.
  add("cuMemcpyDtoDAsync", [=, &b] { return cuMemcpyDtoDAsync(buf, buf + 8192, 64, b.s[2]); });
  add("cuMemsetD32Async", [=, &b] { return cuMemsetD32Async(buf, 1, 16, b.s[2]); });
  add("cuMemsetD32(sync)", [=] { return cuMemsetD32(buf, 1, 4); });
  add("cuMemcpyHtoD(sync)", [=, &b] { return cuMemcpyHtoD(buf, b.pageable.data(), 4); });
  add("cuLaunchHostFunc", [&b] { return cuLaunchHostFunc(b.s[2], [](void *) {}, nullptr); });
  add("cuStreamAddCallback", [&b] { return cuStreamAddCallback(b.s[2], [](CUstream, CUresult, void *) {}, nullptr, 0); });
  add("cuGraphLaunch", [&b] { return cuGraphLaunch(b.exec, b.s[2]); });
  add("cuGraphUpload", [&b] { return cuGraphUpload(b.exec, b.s[2]); });
  add("cuGraphInstantiate", [&b] { CUgraphExec exec; return cuGraphInstantiate(&exec, b.graph, 0); });
  add("cuGraphCreate", [] { CUgraph graph; return cuGraphCreate(&graph, 0); });
  add("cuGraphAddKernelNode(warm)", [&b] {
    const CUDA_KERNEL_NODE_PARAMS p = b.node_parameters();
    CUgraph graph;
    CUgraphNode node;
    const CUresult r = cuGraphCreate(&graph, 0);
    return r == CUDA_SUCCESS ? cuGraphAddKernelNode(&node, graph, nullptr, 0, &p) : r;
  });
  add("cuGraphExecKernelNodeSetParams", [&b] {
    const CUDA_KERNEL_NODE_PARAMS p = b.node_parameters();
    return cuGraphExecKernelNodeSetParams(b.exec, b.node, &p);
  });
  add("cuMemAllocAsync", [&b] { CUdeviceptr p; return cuMemAllocAsync(&p, 4096, b.s[2]); });
  add("cuMemFreeAsync", [&b] {
    const CUdeviceptr p = b.from_stream.back();
    b.from_stream.pop_back();
    return cuMemFreeAsync(p, b.s[2]);
  });
  add("cuMemHostAlloc", [] { void *p; return cuMemHostAlloc(&p, 4096, 0); });
  add("cuMemAllocManaged", [] { CUdeviceptr p; return cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL); });
  add("cuMemHostRegister", [&b] { return cuMemHostRegister(b.pageable.data() + (1 << 20), 4096, 0); }, none,
      [&b] { CK(cuMemHostUnregister(b.pageable.data() + (1 << 20))); });
  add("cuEventCreate", [] { CUevent e; return cuEventCreate(&e, 0); });
  add("cuEventDestroy", [&b] { return cuEventDestroy(b.spare_event); }, [&b] { CK(cuEventCreate(&b.spare_event, 0)); });
  add("cuEventSynchronize(idle)", [&b] { return cuEventSynchronize(b.idle); });
  add("cuEventElapsedTime", [&b] {
    float milliseconds;
    return cuEventElapsedTime(&milliseconds, b.idle, b.idle) == CUDA_ERROR_INVALID_HANDLE ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  });
  add("cuStreamDestroy", [&b] { return cuStreamDestroy(b.spare_stream); }, [&b] { CK(cuStreamCreate(&b.spare_stream, CU_STREAM_DEFAULT)); });
  const auto end_capture = [&b] { CUgraph graph; return cuStreamEndCapture(b.s[5], &graph); };
  const auto begin_capture = [&b] { return cuStreamBeginCapture(b.s[5], CU_STREAM_CAPTURE_MODE_RELAXED); };
  add("cuStreamBeginCapture", begin_capture, none, [=] { CK(end_capture()); });
  add("cuStreamEndCapture", end_capture, [=] { CK(begin_capture()); });
  add("cuStreamWaitEvent", [&b] { return cuStreamWaitEvent(b.s[2], b.idle, 0); });
  add("cuStreamWaitValue32", [=, &b] { return cuStreamWaitValue32(b.s[2], buf + (48 << 20), 0, CU_STREAM_WAIT_VALUE_EQ); });
  add("cuStreamQuery(NULL)", [] { return cuStreamQuery(nullptr); });
  add("cuStreamGetFlags", [&b] { unsigned v; return cuStreamGetFlags(b.s[2], &v); });
  add("cuStreamGetId", [&b] { unsigned long long v; return cuStreamGetId(b.s[2], &v); });
  add("cuModuleGetGlobal(n/a)", [&b] {
    CUdeviceptr p;
    size_t bytes;
    return cuModuleGetGlobal(&p, &bytes, b.module, "nosuch") == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  });
  add("cuModuleGetFunctionCount", [&b] { unsigned n; return cuModuleGetFunctionCount(&n, b.module); });
  add("cuModuleEnumerateFunctions", [&b] { CUfunction f[4]; return cuModuleEnumerateFunctions(f, 4, b.module); });
  add("cuModuleGetLoadingMode", [] { CUmoduleLoadingMode m; return cuModuleGetLoadingMode(&m); });
  add("cuOccupancy(loaded)", [&b] { int n; return cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, b.warm, 128, 0); });
  add("cuFuncSetAttribute(loaded)",
      [&b] { return cuFuncSetAttribute(b.warm, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024); });
  add("cuFuncSetCacheConfig(loaded)", [&b] { return cuFuncSetCacheConfig(b.warm, CU_FUNC_CACHE_PREFER_L1); });
  add("cuFuncGetModule", [&b] { CUmodule m; return cuFuncGetModule(&m, b.warm); });
  add("cuFuncLoad(loaded)", [&b] { return cuFuncLoad(b.warm); });
  add("cuKernelGetFunction(loaded)", [&b] { CUfunction f; return cuKernelGetFunction(&f, b.warm_kernel); });
  add("cuKernelGetAttribute", [=, &b] { int v; return cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, b.cold_kernel, dev); });
  add("cuLibraryLoadData", [=] { CUlibrary l; return cuLibraryLoadData(&l, image, nullptr, nullptr, 0, nullptr, nullptr, 0); });
  add("cuLibraryGetKernel", [&b] { CUkernel k; return cuLibraryGetKernel(&k, b.library, "cold31"); });
  add("cuLibraryGetModule(there)", [&b] { CUmodule m; return cuLibraryGetModule(&m, b.library); });
  add("cuCtxRecordEvent", [=, &b] { return cuCtxRecordEvent(context, b.idle); });
  add("cuCtxSetLimit(same)", [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024); }, [] { CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024)); });
  add("cuCtxGetStreamPriorityRange", [] { int least, greatest; return cuCtxGetStreamPriorityRange(&least, &greatest); });
  add("cuCtxPushCurrent", [=] { return cuCtxPushCurrent(context); });
  add("cuCtxSetCurrent", [=] { return cuCtxSetCurrent(context); });
  add("cuDevicePrimaryCtxRetain", [=] { CUcontext c; return cuDevicePrimaryCtxRetain(&c, dev); });
  add("cuDeviceGetName", [=] { char name[64]; return cuDeviceGetName(name, sizeof name, dev); });
  add("cuMemGetAddressRange", [=] { CUdeviceptr p; size_t n; return cuMemGetAddressRange(&p, &n, buf); });
  add("cuMemHostGetDevicePointer", [&b] { CUdeviceptr p; return cuMemHostGetDevicePointer(&p, b.pinned, 0); });
  add("cuPointerGetAttributes", [=] {
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned value;
    void *values = &value;
    return cuPointerGetAttributes(1, &attribute, &values, buf);
  });
  add("cuThreadExchangeStreamCaptureMode", [] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return cuThreadExchangeStreamCaptureMode(&mode);
  });
  add("cuGetProcAddress", [] { void *p; return cuGetProcAddress("cuLaunchKernel", &p, 12000, 0, nullptr); });
  return all;
}

bool sleeps(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  return std::getline(file, stat) && stat.find(") S ") != std::string::npos;
}

void walk_row(Tally &tally, Bench &b, const std::string &section, const Blocker &blocker, const std::string &name,
              const Call &call, bool blocks) {
  Device &d = device();
  *d.flag.host = 0;
  CK(cuEventRecord(b.idle, b.s[2]));
  CK(cuStreamSynchronize(b.s[2]));
  blocker.prepare();
  CK(cuCtxSynchronize());
  call.prepare();
  CK(launch_one(b.spin, b.s[0], d.flag.device));
  CK(cuEventRecord(b.busy, b.s[0]));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::atomic<bool> blocker_done{false};
  std::atomic<int> blocker_thread{0};
  std::thread blocked([&] {
    blocker_thread = gettid();
    CK(cuCtxSetCurrent(d.session.context));
    CK(blocker.call());
    blocker_done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  // A busy machine may not have let it run yet. On a card it may also compute while it waits.
  for (int n = 0; n < 300 && !blocker_done && !sleeps(blocker_thread); n++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool blocker_blocks = !blocker_done;
  const Outcome outcome = call_beside(name, blocks ? Expect::blocks : Expect::returns, call.call, [&](bool) { *d.flag.host = 1; });
  blocked.join();
  call.clean_up();
  CK(cuCtxSynchronize());
  const std::string what = name + " during " + section;
  if (!blocker_blocks) tally.cell(what, section + " blocks", section + " returns");
  tally.cell(what, word(blocks), word(outcome.blocked));
  const bool busy = name == "cuStreamQuery(busy)" || name == "cuEventQuery(busy)";
  if (outcome.result != (busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS)) tally.cell(what, "a good answer", lg::error_name(outcome.result));
}

void set_up(Bench &b) {
  const auto image = device().image.data();
  b.word = lg::mapped_word();
  for (CUstream &s : b.s) CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  CK(cuModuleLoadData(&b.module, image));
  CK(cuModuleGetFunction(&b.spin, b.module, "spin"));
  CK(cuModuleGetFunction(&b.warm, b.module, "warm"));
  for (CUstream s : b.s) CK(launch_one(b.warm, s, device().buffer));
  CK(cuEventCreate(&b.idle, CU_EVENT_DISABLE_TIMING));
  CK(cuEventCreate(&b.busy, CU_EVENT_DISABLE_TIMING));
  CK(cuLibraryLoadData(&b.library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuLibraryGetKernel(&b.warm_kernel, b.library, "warm"));
  CK(cuLibraryGetKernel(&b.cold_kernel, b.library, "cold30"));
  CK(launch_one(reinterpret_cast<CUfunction>(b.warm_kernel), b.s[1], device().buffer));
  b.pageable.assign(2 << 20, 1);
  CK(cuMemHostAlloc(reinterpret_cast<void **>(&b.pinned), 4096, 0));
  const CUDA_KERNEL_NODE_PARAMS p = b.node_parameters();
  CK(cuGraphCreate(&b.graph, 0));
  CK(cuGraphAddKernelNode(&b.node, b.graph, nullptr, 0, &p));
  CK(cuGraphInstantiate(&b.exec, b.graph, 0));
  CK(cuGraphLaunch(b.exec, b.s[2]));
  b.from_stream.resize(8);
  for (CUdeviceptr &p : b.from_stream) CK(cuMemAllocAsync(&p, 4096, b.s[2]));
  CK(cuCtxSynchronize());
}

}  // namespace

void walk_calls_during_a_blocked_call(const std::string &path) {
  const std::string heading = "== during a blocked ";
  Tally tally("calls-during-a-blocked-call.txt");
  Bench b;
  set_up(b);
  const auto known_blockers = blockers(b);
  const auto known_calls = calls(b);
  auto blocker = known_blockers.end();
  for (const std::string &line : lines_of(path)) {
    if (begins(line, heading)) {
      blocker = known_blockers.find(line.substr(heading.size()));
      if (blocker == known_blockers.end()) tally.unknown(line);
      continue;
    }
    const std::string row = trimmed(line);
    const std::string name = row.substr(0, row.find(' '));
    const std::string outcome = trimmed(row.substr(name.size()));
    auto call = known_calls.find(name);
    if (blocker == known_blockers.end() || call == known_calls.end() || (outcome != "BLOCKED" && !begins(outcome, "ok ")))
      tally.unknown(line);
    else
      walk_row(tally, b, blocker->first, blocker->second, name, call->second, outcome == "BLOCKED");
  }
}

void walk_calls_during_further_blocked_calls(const std::string &path) {
  Tally tally("calls-during-further-blocked-calls.tsv");
  Bench b;
  set_up(b);
  const auto known_blockers = blockers(b);
  const auto known_calls = calls(b);
  const std::vector<std::string> lines = lines_of(path);
  const std::vector<std::string> headings = split(lines.at(0), '\t');
  for (size_t i = 1; i < lines.size(); i++) {
    const std::vector<std::string> cells = split(lines[i], '\t');
    auto call = known_calls.find(cells[0]);
    if (call == known_calls.end() || cells.size() != headings.size()) {
      tally.unknown(lines[i]);
      continue;
    }
    for (size_t c = 1; c < cells.size(); c++) {
      auto blocker = known_blockers.find(headings[c]);
      if (cells[c] == "-") continue;
      if (blocker == known_blockers.end() || (cells[c] != "ok" && cells[c] != "B"))
        tally.unknown(cells[0] + " [" + headings[c] + "] " + cells[c]);
      else
        walk_row(tally, b, blocker->first, blocker->second, cells[0], call->second, cells[c] == "B");
    }
  }
}

}  // namespace conformance
