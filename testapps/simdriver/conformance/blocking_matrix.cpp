// blocking-matrix.tsv: does the call return while work that does not end is in flight on s1?
#include <cstdlib>

#include "conformance.hpp"

namespace conformance {
namespace {

using lg::launch_one;

struct Row {
  std::function<void()> prepare;
  std::function<CUresult()> call;
};

// One column: what is in flight, and how the streams were created.
struct Column {
  enum InFlight { nothing, spin, wait_value } in_flight;
  unsigned stream_flags;
};

struct Bench {
  CUmodule module = nullptr;
  CUfunction spin = nullptr, warm = nullptr, big = nullptr, print = nullptr;
  std::vector<CUfunction> got;  // functions that were got, and loaded by that, but never launched
  CUstream s1 = nullptr, s2 = nullptr, s3 = nullptr;
  CUevent busy = nullptr, idle = nullptr;
  char *pinned = nullptr;
  std::vector<char> pageable;
  unsigned stream_flags = 0;

  // What rows leave behind for themselves.
  CUmodule module2 = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr memory = 0;
  void *host = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUcontext context = nullptr;

  CUfunction next_got() {
    CUfunction f = got.back();
    got.pop_back();
    return f;
  }
  void new_library() {
    CK(cuLibraryLoadData(&library, device().image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    CK(cuLibraryGetKernel(&kernel, library, "cold33"));
  }
  void new_graph(CUfunction f) {
    CUdeviceptr argument = device().buffer;
    void *arguments[] = {&argument};
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = f;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    CUgraphNode node;
    CK(cuGraphCreate(&graph, 0));
    CK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &p));
  }
  void new_exec(CUfunction f) {
    new_graph(f);
    CK(cuGraphInstantiate(&exec, graph, 0));
  }
  CUresult launch_many(CUstream s, int count) {
    CUresult r = CUDA_SUCCESS;
    for (int i = 0; i < count && r == CUDA_SUCCESS; i++) r = launch_one(warm, s, device().buffer);
    return r;
  }
};

CUfunction function_of(CUmodule module, const std::string &name) {
  CUfunction f;
  CK(cuModuleGetFunction(&f, module, name.c_str()));
  return f;
}

void set_up(Bench &b, unsigned stream_flags) {
  Device &d = device();
  b.stream_flags = stream_flags;
  CK(cuModuleLoadData(&b.module, d.image.data()));
  b.spin = function_of(b.module, "spin");
  b.warm = function_of(b.module, "warm");
  b.big = function_of(b.module, "bigstack");
  b.print = function_of(b.module, "withprintf");
  for (int i = 10; i < 200; i++)
    if (i != 33 && i != 77) b.got.push_back(function_of(b.module, "cold" + std::to_string(i)));
  CK(cuStreamCreate(&b.s1, stream_flags));
  CK(cuStreamCreate(&b.s2, stream_flags));
  CK(cuStreamCreate(&b.s3, stream_flags));
  CK(cuMemHostAlloc(reinterpret_cast<void **>(&b.pinned), 32 << 20, 0));
  b.pageable.assign(32 << 20, 1);
  CK(launch_one(b.warm, b.s1, d.buffer));
  CK(launch_one(b.warm, b.s2, d.buffer));
  CK(cuEventCreate(&b.busy, CU_EVENT_DISABLE_TIMING));
  CK(cuEventCreate(&b.idle, CU_EVENT_DISABLE_TIMING));
  CK(cuEventRecord(b.idle, b.s2));
  // The row on local memory wants a context that has to grow it; an earlier column has grown it already.
  CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
  CK(cuCtxSynchronize());
}

void tear_down(Bench &b) {
  CK(cuCtxSynchronize());
  CK(cuMemFreeHost(b.pinned));
  for (CUstream s : {b.s1, b.s2, b.s3}) CK(cuStreamDestroy(s));
  for (CUevent e : {b.busy, b.idle}) CK(cuEventDestroy(e));
  CK(cuModuleUnload(b.module));
}

std::map<std::string, Row> rows(Bench &b) {
  Device &d = device();
  const CUdeviceptr buf = d.buffer;
  const auto image = d.image.data();
  const auto none = [] {};
  const size_t k4 = 4096, m1 = 1 << 20, m16 = 16 << 20;
  std::map<std::string, Row> r;
  auto row = [&](const char *name, std::function<void()> prepare, std::function<CUresult()> call) { r[name] = {prepare, call}; };

  row("nop", none, [] { return CUDA_SUCCESS; });
  row("cuStreamQuery(idle)", none, [&b] { return cuStreamQuery(b.s3); });
  row("cuStreamQuery(busy)", none, [&b] { return cuStreamQuery(b.s1); });
  row("cuEventQuery(idle)", none, [&b] { return cuEventQuery(b.idle); });
  row("cuEventQuery(busy)", none, [&b] { return cuEventQuery(b.busy); });
  row("cuLaunchKernel(warm,s2)", none, [=, &b] { return launch_one(b.warm, b.s2, buf); });
  row("cuLaunchKernel(function already got, first launch, s2)", none, [=, &b] { return launch_one(b.next_got(), b.s2, buf); });
  row("cuLaunchKernel(function already got, first launch, busy s1)", none, [=, &b] { return launch_one(b.next_got(), b.s1, buf); });
  row("cuFuncLoad(already got)", none, [&b] { return cuFuncLoad(b.next_got()); });
  row("cuFuncGetAttribute(already got)", none, [&b] {
    int value;
    return cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, b.next_got());
  });
  row("cuFuncIsLoaded", none, [&b] {
    CUfunctionLoadingState state;
    return cuFuncIsLoaded(&state, b.next_got());
  });
  row("cuModuleGetFunction", [&b] { function_of(b.module, "cold77"); },
      [&b] { return cuModuleGetFunction(&b.function, b.module, "cold77"); });
  row("cuModuleGetFunctionCount", none, [&b] {
    unsigned count;
    return cuModuleGetFunctionCount(&count, b.module);
  });
  row("cuModuleLoadData(cubin)", none, [=, &b] { return cuModuleLoadData(&b.module2, image); });
  row("cuModuleLoadData(PTX)", none, [&b] { return cuModuleLoadData(&b.module2, kPtx); });
  row("cuModuleUnload(cold module)", [=, &b] { CK(cuModuleLoadData(&b.module2, image)); }, [&b] { return cuModuleUnload(b.module2); });
  row("cuModuleUnload(loaded module)", [=, &b] {
        CK(cuModuleLoadData(&b.module2, image));
        CK(launch_one(function_of(b.module2, "warm"), b.s2, buf));
        CK(cuCtxSynchronize());
      }, [&b] { return cuModuleUnload(b.module2); });
  row("cuLibraryLoadData", none,
      [=, &b] { return cuLibraryLoadData(&b.library, image, nullptr, nullptr, 0, nullptr, nullptr, 0); });
  row("cuLibraryGetKernel", [&b] { b.new_library(); }, [&b] { return cuLibraryGetKernel(&b.kernel, b.library, "cold33"); });
  row("cuKernelGetFunction(library not yet in the context)", [&b] { b.new_library(); },
      [&b] { return cuKernelGetFunction(&b.function, b.kernel); });
  row("cuLaunchKernel(CUkernel of a library not yet in the context)", [&b] { b.new_library(); },
      [=, &b] { return launch_one(reinterpret_cast<CUfunction>(b.kernel), b.s2, buf); });
  row("cuModuleGetGlobal(n/a)", none, [&b] {
    size_t bytes;
    return cuModuleGetGlobal(&b.memory, &bytes, b.module, "nosuch");
  });
  row("cuMemAlloc(4K)", none, [=, &b] { return cuMemAlloc(&b.memory, k4); });
  row("cuMemAlloc(512M)", none, [&b] { return cuMemAlloc(&b.memory, 512u << 20); });
  row("cuMemFree(4K)", [=, &b] { CK(cuMemAlloc(&b.memory, k4)); }, [&b] { return cuMemFree(b.memory); });
  row("cuMemFree(512M)", [&b] { CK(cuMemAlloc(&b.memory, 512u << 20)); }, [&b] { return cuMemFree(b.memory); });
  row("cuMemAllocAsync(s2)", none, [&b] { return cuMemAllocAsync(&b.memory, 8 << 20, b.s2); });
  row("cuMemFreeAsync(s2)", [&b] {
        CK(cuMemAllocAsync(&b.memory, 8 << 20, b.s2));
        CK(cuStreamSynchronize(b.s2));
      }, [&b] { return cuMemFreeAsync(b.memory, b.s2); });
  row("cuMemHostAlloc(1M)", none, [=, &b] { return cuMemHostAlloc(&b.host, m1, 0); });
  row("cuMemFreeHost(1M)", [=, &b] { CK(cuMemHostAlloc(&b.host, m1, 0)); }, [&b] { return cuMemFreeHost(b.host); });
  row("cuMemHostRegister", none, [=, &b] { return cuMemHostRegister(b.pageable.data(), m1, 0); });
  row("cuMemHostUnregister", none, [&b] { return cuMemHostUnregister(b.pageable.data()); });
  row("cuMemcpyHtoDAsync(pageable 4K,s2)", none, [=, &b] { return cuMemcpyHtoDAsync(buf, b.pageable.data(), k4, b.s2); });
  row("cuMemcpyHtoDAsync(pageable 16M,s2)", none, [=, &b] { return cuMemcpyHtoDAsync(buf, b.pageable.data(), m16, b.s2); });
  row("cuMemcpyHtoDAsync(pageable 16M,busy s1)", none, [=, &b] { return cuMemcpyHtoDAsync(buf, b.pageable.data(), m16, b.s1); });
  row("cuMemcpyHtoDAsync(pinned 16M,s2)", none, [=, &b] { return cuMemcpyHtoDAsync(buf, b.pinned, m16, b.s2); });
  row("cuMemcpyHtoDAsync(pinned 16M,busy s1)", none, [=, &b] { return cuMemcpyHtoDAsync(buf, b.pinned, m16, b.s1); });
  row("cuMemcpyDtoHAsync(pinned 16M,s2)", none, [=, &b] { return cuMemcpyDtoHAsync(b.pinned, buf, m16, b.s2); });
  row("cuMemcpyDtoHAsync(pageable 16M,s2)", none, [=, &b] { return cuMemcpyDtoHAsync(b.pageable.data(), buf, m16, b.s2); });
  row("cuMemcpyDtoHAsync(pageable 4K,busy s1)", none, [=, &b] { return cuMemcpyDtoHAsync(b.pageable.data(), buf, k4, b.s1); });
  row("cuMemcpyHtoD(sync 4K)", none, [=, &b] { return cuMemcpyHtoD(buf, b.pageable.data(), k4); });
  row("cuMemcpyDtoH(sync 4K)", none, [=, &b] { return cuMemcpyDtoH(b.pageable.data(), buf, k4); });
  row("cuMemcpyDtoDAsync(s2)", none, [=, &b] { return cuMemcpyDtoDAsync(buf, buf + (32 << 20), m1, b.s2); });
  row("cuMemsetD32Async(s2)", none, [=, &b] { return cuMemsetD32Async(buf, 1, 1024, b.s2); });
  row("cuMemsetD32(sync)", none, [=] { return cuMemsetD32(buf, 1, 1024); });
  row("cuStreamCreate", none, [&b] { return cuStreamCreate(&b.stream, b.stream_flags); });
  row("cuStreamDestroy(idle)", [&b] { CK(cuStreamCreate(&b.stream, b.stream_flags)); }, [&b] { return cuStreamDestroy(b.stream); });
  row("cuEventCreate", none, [&b] { return cuEventCreate(&b.event, 0); });
  row("cuEventDestroy", [&b] { CK(cuEventCreate(&b.event, 0)); }, [&b] { return cuEventDestroy(b.event); });
  row("cuEventRecord(s2)", none, [&b] { return cuEventRecord(b.idle, b.s2); });
  row("cuStreamWaitEvent(s2)", none, [&b] { return cuStreamWaitEvent(b.s2, b.idle, 0); });
  row("cuStreamSynchronize(idle s3)", none, [&b] { return cuStreamSynchronize(b.s3); });
  row("cuStreamSynchronize(NULL)", none, [] { return cuStreamSynchronize(nullptr); });
  row("cuCtxSynchronize", none, [] { return cuCtxSynchronize(); });
  row("cuCtxGetLimit", none, [] {
    size_t value;
    return cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE);
  });
  row("cuCtxSetLimit(STACK)", none, [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096); });
  row("cuMemGetInfo", none, [] {
    size_t free, total;
    return cuMemGetInfo(&free, &total);
  });
  row("cuPointerGetAttribute", none, [=] {
    unsigned value;
    return cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buf);
  });
  row("cuGraphAddKernelNode(already got)", none, [&b] {
    b.new_graph(b.next_got());
    return CUDA_SUCCESS;
  });
  row("cuGraphInstantiate(warm)", [&b] { b.new_graph(b.warm); }, [&b] { return cuGraphInstantiate(&b.exec, b.graph, 0); });
  row("cuGraphInstantiate(already got, never launched)", [&b] { b.new_graph(b.next_got()); },
      [&b] { return cuGraphInstantiate(&b.exec, b.graph, 0); });
  row("cuGraphLaunch(warm,first)", [&b] { b.new_exec(b.warm); }, [&b] { return cuGraphLaunch(b.exec, b.s2); });
  row("cuGraphLaunch(warm,second)", [&b] {
        b.new_exec(b.warm);
        CK(cuGraphLaunch(b.exec, b.s2));
        CK(cuCtxSynchronize());
      }, [&b] { return cuGraphLaunch(b.exec, b.s2); });
  row("cuGraphLaunch(already got, never launched)", [&b] { b.new_exec(b.next_got()); }, [&b] { return cuGraphLaunch(b.exec, b.s2); });
  row("cuStreamWriteValue32(s2)", none, [=, &b] { return cuStreamWriteValue32(b.s2, buf + 4096, 1, 0); });
  row("cuStreamWaitValue32(s2,satisfied)", none,
      [=, &b] { return cuStreamWaitValue32(b.s2, buf + (48 << 20), 0, CU_STREAM_WAIT_VALUE_EQ); });
  row("cuLaunchHostFunc(s2)", none, [&b] { return cuLaunchHostFunc(b.s2, [](void *) {}, nullptr); });
  row("cuOccupancyMaxActiveBlocksPerMultiprocessor(already got)", none, [&b] {
    int blocks;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, b.next_got(), 128, 0);
  });
  row("cuFuncSetAttribute(already got)", none,
      [&b] { return cuFuncSetAttribute(b.next_got(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024); });
  row("cuFuncSetCacheConfig(already got)", none, [&b] { return cuFuncSetCacheConfig(b.next_got(), CU_FUNC_CACHE_PREFER_L1); });
  row("cuLaunchCooperativeKernel(warm,first)", none, [=, &b] {
    CUdeviceptr argument = buf;
    void *arguments[] = {&argument};
    return cuLaunchCooperativeKernel(b.warm, 1, 1, 1, 1, 1, 1, 0, b.s2, arguments);
  });
  row("cuLaunchKernel(printf, loaded)", [&b] { CK(cuFuncLoad(b.print)); }, [=, &b] { return launch_one(b.print, b.s2, buf); });
  row("cuLaunchKernel(32K local mem, LOADED)", [&b] { CK(cuFuncLoad(b.big)); }, [=, &b] { return launch_one(b.big, b.s2, buf, 3); });
  row("cuCtxCreate(second)", none, [&b] {
    CUctxCreateParams p{};
    CUcontext popped;
    CUresult result = cuCtxCreate(&b.context, &p, 0, device().session.device);
    cuCtxPopCurrent(&popped);
    return result;
  });
  row("cuDevicePrimaryCtxRetain", none, [&b] { return cuDevicePrimaryCtxRetain(&b.context, device().session.device); });
  row("cuLaunchKernel(warm,NULL stream)", none, [=, &b] { return launch_one(b.warm, static_cast<CUstream>(nullptr), buf); });
  row("cuLaunchKernel x1500 warm s2 (queue)", none, [&b] { return b.launch_many(b.s2, 1500); });
  row("cuLaunchKernel x5000 warm busy s1 (queue)", none, [&b] { return b.launch_many(b.s1, 5000); });
  row("cuMemAllocManaged", none, [=, &b] { return cuMemAllocManaged(&b.memory, m1, CU_MEM_ATTACH_GLOBAL); });
  return r;
}

// What a call answers when it neither blocks nor fails, where that is not CUDA_SUCCESS.
bool answer_is_good(const std::string &name, CUresult result, const Column &column) {
  if (name == "cuModuleGetGlobal(n/a)") return result == CUDA_ERROR_NOT_FOUND;
  if (name == "cuStreamQuery(busy)" || name == "cuEventQuery(busy)")
    return result == (column.in_flight == Column::nothing ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
  return result == CUDA_SUCCESS;
}

void walk_cell(Tally &tally, Bench &b, const std::string &name, const Row &row, const Column &column, const std::string &heading,
               bool blocks) {
  Device &d = device();
  row.prepare();
  CK(cuStreamSynchronize(b.s2));
  *d.flag.host = 0;
  if (column.in_flight == Column::spin) CK(launch_one(b.spin, b.s1, d.flag.device));
  if (column.in_flight == Column::wait_value) CK(cuStreamWaitValue32(b.s1, d.flag.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  if (column.in_flight != Column::nothing) CK(cuEventRecord(b.busy, b.s1));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const Outcome outcome = call_beside(name, blocks ? Expect::blocks : Expect::returns, row.call, [&](bool) { *d.flag.host = 1; });
  const std::string what = name + " [" + heading + "]";
  tally.cell(what, word(blocks), word(outcome.blocked));
  if (!answer_is_good(name, outcome.result, column)) tally.cell(what, "a good answer", lg::error_name(outcome.result));
  CK(cuCtxSynchronize());
}

}  // namespace

void walk_blocking_matrix(const std::string &path) {
  const std::map<std::string, Column> columns = {
      {"idle_context_us", {Column::nothing, CU_STREAM_DEFAULT}},
      {"spin_blocking_streams", {Column::spin, CU_STREAM_DEFAULT}},
      {"spin_nonblocking_streams", {Column::spin, CU_STREAM_NON_BLOCKING}},
      {"wait_blocking_streams", {Column::wait_value, CU_STREAM_DEFAULT}},
      {"wait_nonblocking_streams", {Column::wait_value, CU_STREAM_NON_BLOCKING}},
  };
  Tally tally("blocking-matrix.tsv");
  const std::vector<std::string> lines = lines_of(path);
  const std::vector<std::string> headings = split(lines.at(0), '\t');
  for (size_t c = 1; c < headings.size(); c++) {
    auto column = columns.find(headings[c]);
    if (column == columns.end()) {
      tally.unknown("column " + headings[c]);
      continue;
    }
    Bench bench;
    set_up(bench, column->second.stream_flags);
    const std::map<std::string, Row> known = rows(bench);
    for (size_t i = 1; i < lines.size(); i++) {
      const std::vector<std::string> cells = split(lines[i], '\t');
      auto row = known.find(cells[0]);
      if (row == known.end() || cells.size() != headings.size())
        tally.unknown(lines[i]);
      else
        walk_cell(tally, bench, cells[0], row->second, column->second, headings[c], cells[c] == "B");
    }
    tear_down(bench);
  }
}

}  // namespace conformance
