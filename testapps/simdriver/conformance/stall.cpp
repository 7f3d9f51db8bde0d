// stall-after-cold-load.txt: a kernel spins on st[0]; one call is made; does a warm kernel launched afterwards still run?
#include <algorithm>

#include "conformance.hpp"

namespace conformance {
namespace {

using lg::launch_one;

struct Bench {
  CUlibrary library = nullptr, other_library = nullptr;
  CUkernel other_kernel = nullptr;
  CUfunction spin = nullptr;
  CUstream st[8] = {};
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  int next_cold = 100;

  CUkernel kernel(const std::string &name) const {
    CUkernel k;
    CK(cuLibraryGetKernel(&k, library, name.c_str()));
    return k;
  }
  CUfunction as_function(const std::string &name) const { return reinterpret_cast<CUfunction>(kernel(name)); }
  std::string cold() { return "cold" + std::to_string(next_cold++); }

  // A function that was listed but never asked for: a handle that is not loaded.
  CUfunction enumerated(const std::string &name) const {
    CUmodule module;
    unsigned count = 0;
    CK(cuLibraryGetModule(&module, library));
    CK(cuModuleGetFunctionCount(&count, module));
    std::vector<CUfunction> all(count);
    CK(cuModuleEnumerateFunctions(all.data(), count, module));
    for (CUfunction f : all) {
      const char *its_name = nullptr;
      CK(cuFuncGetName(&its_name, f));
      if (name == its_name) return f;
    }
    EXPECT(!"a listed function of that name");
    return nullptr;
  }
  CUresult add_kernel_node(CUkernel k) {
    CUdeviceptr argument = device().buffer;
    void *arguments[] = {&argument};
    CUDA_KERNEL_NODE_PARAMS p{};
    p.kern = k;
    p.ctx = device().session.context;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    CUgraphNode node;
    CK(cuGraphCreate(&graph, 0));
    return cuGraphAddKernelNode(&node, graph, nullptr, 0, &p);
  }
  void load_other_library() {
    CK(cuLibraryLoadData(&other_library, device().image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    CK(cuLibraryGetKernel(&other_kernel, other_library, "warm"));
  }
};

struct Row {
  std::function<void()> prepare;
  std::function<CUresult()> call;
};

// What a line says happens.
struct Said {
  bool blocks = false;
  bool stalls = false;
};

Said said(const std::string &line) {
  return {line.find("HOST-BLOCKED") != std::string::npos, line.find("LATER WORK STALLED") != std::string::npos};
}

std::string in_words(bool blocks, bool stalls) {
  return blocks ? "host-blocked" : stalls ? "returns, later work stalled" : "returns, later work runs";
}

void walk_row(Tally &tally, Bench &b, const std::string &name, const Row &row, const Said &expected) {
  Device &d = device();
  row.prepare();
  CK(cuCtxSynchronize());
  *d.flag.host = 0;
  CK(launch_one(b.spin, b.st[0], d.flag.device));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  bool stalls = false;
  const Outcome outcome = call_beside(name, expected.blocks ? Expect::blocks : Expect::returns, row.call, [&](bool blocked) {
    // Beside a blocked call a launch would block, too.
    if (!blocked) {
      CK(launch_one(b.as_function("warm"), b.st[2], d.buffer));
      stalls = !runs_dry(b.st[2], !expected.stalls);
    }
    *d.flag.host = 1;
  });
  CK(cuCtxSynchronize());
  tally.cell(name, in_words(expected.blocks, expected.stalls), in_words(outcome.blocked, stalls));
  if (outcome.result != CUDA_SUCCESS) tally.cell(name, "CUDA_SUCCESS", lg::error_name(outcome.result));
}

std::map<std::string, Row> rows(Bench &b) {
  Device &d = device();
  const CUdeviceptr buf = d.buffer;
  const auto none = [] {};
  auto new_graph = [&b] {
    CK(b.add_kernel_node(b.kernel(b.cold())));
    CK(cuGraphInstantiate(&b.exec, b.graph, 0));
  };
  std::map<std::string, Row> r;
  auto row = [&](const char *name, std::function<void()> prepare, std::function<CUresult()> call) { r[name] = {prepare, call}; };

  row("cuLaunchKernel(cold)", none, [=, &b] { return launch_one(b.as_function(b.cold()), b.st[3], buf); });
  row("cuLaunchKernelEx(cold)", none, [=, &b] {
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = b.st[3];
    CUdeviceptr argument = buf;
    void *arguments[] = {&argument};
    return cuLaunchKernelEx(&config, b.as_function(b.cold()), arguments, nullptr);
  });
  row("cuLaunchCooperativeKernel(cold)", none, [=, &b] {
    CUdeviceptr argument = buf;
    void *arguments[] = {&argument};
    return cuLaunchCooperativeKernel(b.as_function(b.cold()), 1, 1, 1, 1, 1, 1, 0, b.st[3], arguments);
  });
  row("cuKernelGetFunction(cold), no launch", none, [&b] {
    CUfunction f;
    return cuKernelGetFunction(&f, b.kernel(b.cold()));
  });
  row("cuFuncLoad(cold handle from enumeration)", none, [&b] { return cuFuncLoad(b.enumerated(b.cold())); });
  row("cuKernelSetAttribute(cold)", none, [&b] {
    return cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, b.kernel(b.cold()), device().session.device);
  });
  row("cuOccupancyMaxActiveBlocksPerMultiprocessor(cold)", none, [&b] {
    int blocks;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, b.enumerated(b.cold()), 128, 0);
  });
  row("cuGraphAddKernelNode(cold CUkernel)", none, [&b] { return b.add_kernel_node(b.kernel(b.cold())); });
  row("launch of a cold kernel inside stream capture", none, [=, &b] {
    CK(cuStreamBeginCapture(b.st[3], CU_STREAM_CAPTURE_MODE_RELAXED));
    const CUresult launched = launch_one(b.as_function(b.cold()), b.st[3], buf);
    CUgraph captured;
    const CUresult ended = cuStreamEndCapture(b.st[3], &captured);
    return launched != CUDA_SUCCESS ? launched : ended;
  });
  row("cuLaunchKernel(cold kernel that uses printf)", none, [=, &b] { return launch_one(b.as_function("withprintf"), b.st[3], buf); });
  row("cuFuncGetAttribute(cold handle from enumeration)", none, [&b] {
    int value;
    return cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, b.enumerated(b.cold()));
  });
  row("cuKernelGetAttribute(cold)", none, [&b] {
    int value;
    return cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, b.kernel(b.cold()), device().session.device);
  });
  row("cuGraphInstantiate", [&b] { CK(b.add_kernel_node(b.kernel(b.cold()))); },
      [&b] { return cuGraphInstantiate(&b.exec, b.graph, 0); });
  row("cuGraphUpload", new_graph, [&b] { return cuGraphUpload(b.exec, b.st[3]); });
  row("cuGraphLaunch", new_graph, [&b] { return cuGraphLaunch(b.exec, b.st[3]); });
  row("cuLibraryLoadData + cuLibraryGetKernel (new library)", none, [&b] {
    b.load_other_library();
    return CUDA_SUCCESS;
  });
  row("cuLaunchKernel(first kernel of that library: module load)", [&b] { b.load_other_library(); },
      [=, &b] { return launch_one(reinterpret_cast<CUfunction>(b.other_kernel), b.st[3], buf); });
  row("cuLibraryGetModule(library not yet in the context)", [&b] { b.load_other_library(); }, [&b] {
    CUmodule module;
    return cuLibraryGetModule(&module, b.other_library);
  });
  row("cuLibraryUnload(loaded)", [=, &b] {
        b.load_other_library();
        CK(launch_one(reinterpret_cast<CUfunction>(b.other_kernel), b.st[1], buf));
      }, [&b] { return cuLibraryUnload(b.other_library); });
  row("cuCtxCreate + cold launch in that second context", none, [&b] {
    CUctxCreateParams p{};
    CUcontext context, popped;
    CUstream stream;
    CUdeviceptr memory;
    CK(cuCtxCreate(&context, &p, 0, device().session.device));
    CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CK(cuMemAlloc(&memory, 4096));
    CK(launch_one(b.as_function("cold99"), stream, memory));
    const bool completed = runs_dry(stream, true);
    CK(cuCtxPopCurrent(&popped));
    return completed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
  row("cuMemcpyHtoDAsync pageable 64 KB on an idle stream", none, [=, &b] {
    static char pageable[65536];
    return cuMemcpyHtoDAsync(buf, pageable, sizeof pageable, b.st[3]);
  });
  return r;
}

void walk_full_device(Tally &tally, Bench &b, const std::string &line) {
  Device &d = device();
  int multiprocessors = 0;
  CK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d.session.device));
  *d.flag.host = 0;
  void *arguments[] = {&d.flag.device};
  CK(cuLaunchKernel(b.spin, static_cast<unsigned>(multiprocessors) * 2, 1, 1, 1024, 1, 1, 0, b.st[0], arguments, nullptr));
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  CK(launch_one(b.as_function("warm"), b.st[2], d.buffer));
  static lg::MappedWord word = lg::mapped_word();
  CK(cuMemcpyDtoHAsync(const_cast<int *>(word.host), d.buffer, sizeof(int), b.st[4]));
  const bool copied = runs_dry(b.st[4], true);
  const bool started = runs_dry(b.st[2], false);
  *d.flag.host = 1;
  CK(cuCtxSynchronize());
  const bool copy_said = line.find("a memcpy on a third stream runs") != std::string::npos;
  const bool start_said = line.find("NEVER STARTS") == std::string::npos;
  tally.cell("a warm kernel beside a grid that fills the device", start_said ? "runs" : "never starts", started ? "runs" : "never starts");
  tally.cell("a memcpy beside a grid that fills the device", copy_said ? "runs" : "waits", copied ? "runs" : "waits");
}

void walk_many_streams(Tally &tally, Bench &b, const std::string &line) {
  constexpr int kStreams = 64;
  Device &d = device();
  std::vector<CUstream> streams(kStreams);
  for (CUstream &s : streams) CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  *d.flag.host = 0;
  CK(launch_one(b.spin, streams[0], d.flag.device));
  for (int i = 1; i < kStreams; i++) CK(launch_one(b.as_function("warm"), streams[static_cast<size_t>(i)], d.buffer));
  int ran = 0;
  for (int i = 1; i < kStreams; i++) ran += runs_dry(streams[static_cast<size_t>(i)], true);
  *d.flag.host = 1;
  CK(cuCtxSynchronize());
  for (CUstream s : streams) CK(cuStreamDestroy(s));
  tally.cell("warm kernels on 63 streams beside a spin", line.find("all 63 ran") != std::string::npos ? "63 ran" : "fewer ran",
             std::to_string(ran) + " ran");
}

}  // namespace

void walk_stall_after_cold_load(const std::string &path) {
  Tally tally("stall-after-cold-load.txt");
  Bench b;
  CK(cuLibraryLoadData(&b.library, device().image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  for (CUstream &s : b.st) CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  CK(launch_one(b.as_function("warm"), b.st[1], device().buffer));
  CK(cuKernelGetFunction(&b.spin, b.kernel("spin")));
  CK(cuCtxSynchronize());
  const std::map<std::string, Row> known = rows(b);

  for (const std::string &line : lines_of(path)) {
    if (begins(line, "a spinning grid that fills the device")) {
      walk_full_device(tally, b, line);
    } else if (begins(line, "64 streams,")) {
      walk_many_streams(tally, b, line);
    } else if (const size_t of = line.find(" of a graph whose cold node was added before the spin:"); of != std::string::npos) {
      // One line for several calls, parted by " / ".
      for (const std::string &part : split(line.substr(0, of), '/')) {
        auto row = known.find(trimmed(part));
        if (row == known.end())
          tally.unknown(line);
        else
          walk_row(tally, b, row->first, row->second, said(line));
      }
    } else {
      // The call, at least two blanks or a blank before "returned", what happened.
      const size_t end = std::min(line.find("  "), line.find(" returned "));
      auto row = known.find(end == std::string::npos ? line : line.substr(0, end));
      if (row == known.end())
        tally.unknown(line);
      else
        walk_row(tally, b, row->first, row->second, said(line));
    }
  }
  CK(cuCtxSynchronize());
}

}  // namespace conformance
