// further-answers.tsv: one question a row, one answer in words.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "conformance.hpp"
#include "image.hpp"

namespace conformance {
namespace {

using lg::launch_one;
using Answer = std::function<std::string(const std::string &expected)>;

struct Bench {
  CUmodule module = nullptr;
  CUfunction spin = nullptr, warm = nullptr, big = nullptr;
  CUstream s[4] = {}, blocking = nullptr;
  lg::MappedWord word;
  std::vector<char> pageable;

  void begin_spin(CUstream stream) {
    *device().flag.host = 0;
    CK(launch_one(spin, stream, device().flag.device));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
};

Expect expectation(const std::string &answer) { return begins(answer, "blocks") ? Expect::blocks : Expect::returns; }
void release(bool) { *device().flag.host = 1; }

// Does the call return while a kernel spins on `stream`?
std::string beside_spin(Bench &b, CUstream stream, const std::string &expected, const std::function<CUresult()> &call,
                        bool with_result = false) {
  b.begin_spin(stream);
  const Outcome outcome = call_beside("a call of further-answers.tsv", expectation(expected), call, release);
  CK(cuCtxSynchronize());
  if (with_result) return std::string(word(outcome.blocked)) + ", " + lg::error_name(outcome.result);
  return outcome.result == CUDA_SUCCESS ? word(outcome.blocked) : lg::error_name(outcome.result);
}

// Is a write on another stream carried out while the call is blocked behind a spin?
std::string write_during(Bench &b, const std::string &expected, const std::function<CUresult()> &call) {
  *b.word.host = 0;
  b.begin_spin(b.s[0]);
  bool written = false;
  const Outcome outcome = call_beside("a blocked call", Expect::blocks, call, [&](bool) {
    CK(cuStreamWriteValue32(b.s[2], b.word.device, 7, 0));
    const bool dry = runs_dry(b.s[2], expected == "carried out");
    written = dry && *b.word.host == 7;
    *device().flag.host = 1;
  });
  CK(cuCtxSynchronize());
  if (!outcome.blocked) return "the call does not block";
  if (outcome.result != CUDA_SUCCESS) return lg::error_name(outcome.result);
  return written ? "carried out" : "held back";
}

// Does a warm launch return while one thread, or two, are blocked in calls?
std::string launch_during(Bench &b, CUstream spinning, const std::string &expected, const std::vector<std::function<CUresult()>> &blocked) {
  b.begin_spin(spinning);
  std::vector<std::thread> threads;
  for (const auto &call : blocked) {
    threads.emplace_back([call] {
      CK(cuCtxSetCurrent(device().session.context));
      CK(call());
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  const Outcome outcome = call_beside("cuLaunchKernel", expectation(expected), [&] { return launch_one(b.warm, b.s[2], device().buffer); }, release);
  for (std::thread &thread : threads) thread.join();
  CK(cuCtxSynchronize());
  return word(outcome.blocked);
}

// A second context that has launched nothing yet.
struct Fresh {
  CUcontext context = nullptr;
  CUfunction warm = nullptr, setflag = nullptr, prints = nullptr, big = nullptr;
  CUstream s[3] = {};
  CUdeviceptr memory = 0;
  lg::MappedWord word;

  Fresh() {
    CUmodule module;
    CK(cuCtxCreate(&context, nullptr, 0, device().session.device));
    CK(cuModuleLoadData(&module, device().image.data()));
    CK(cuModuleGetFunction(&warm, module, "warm"));
    CK(cuModuleGetFunction(&setflag, module, "setflag"));
    CK(cuModuleGetFunction(&prints, module, "withprintf"));
    CK(cuModuleGetFunction(&big, module, "bigstack"));
    for (CUstream &stream : s) CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CK(cuMemAlloc(&memory, 4096));
    word = lg::mapped_word();
  }
  ~Fresh() {
    CK(cuCtxSynchronize());
    CK(cuCtxDestroy(context));
    CK(cuCtxSetCurrent(device().session.context));
  }
};

std::string ran(bool dry) { return dry ? "runs" : "held back"; }

// Does what is submitted to s[1] run while s[0] waits for a value?
std::string beside_wait(const std::string &expected, const std::function<void(Fresh &)> &before, const std::function<void(Fresh &)> &work) {
  Fresh f;
  before(f);
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(f.s[0], f.word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  work(f);
  const std::string seen = ran(runs_dry(f.s[1], expected == "runs"));
  *f.word.host = 1;  // the host's own hand: nothing that is submitted would come through
  return seen;
}

// The same while a host function on s[0] does not return.
std::string beside_host_function(const std::string &expected, const std::function<void(Fresh &)> &work, CUstream other = nullptr) {
  Fresh f;
  static std::atomic<bool> returns;
  returns = false;
  CK(cuLaunchHostFunc(f.s[0], [](void *) { while (!returns) std::this_thread::sleep_for(std::chrono::milliseconds(1)); }, nullptr));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  work(f);
  const std::string seen = ran(runs_dry(other ? other : f.s[1], expected == "runs"));
  returns = true;
  return seen;
}

// How often a call returns behind a spin before it blocks.
std::string taken_behind_spin(Bench &b, int most, const std::function<CUresult()> &call) {
  b.begin_spin(b.s[0]);
  std::atomic<int> taken{0};
  std::thread caller([&] {
    CK(cuCtxSetCurrent(device().session.context));
    for (int i = 0; i < most; i++) {
      CK(call());
      taken++;
    }
  });
  // Until nothing has been taken for a while.
  int before = -1;
  while (taken != before && taken < most) {
    before = taken;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const int result = taken;
  *device().flag.host = 1;
  caller.join();
  CK(cuCtxSynchronize());
  return std::to_string(result);
}

struct Listed {
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;
};

// A function of a fresh library whose module is in the context: listed, and not loaded.
Listed listed_cold() {
  CUlibrary library;
  CUmodule module;
  Listed listed;
  unsigned count = 0;
  CK(cuLibraryLoadData(&library, device().image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuLibraryGetModule(&module, library));
  CK(cuModuleGetFunctionCount(&count, module));
  std::vector<CUfunction> all(count);
  CK(cuModuleEnumerateFunctions(all.data(), count, module));
  for (CUfunction f : all) {
    const char *name = nullptr;
    CK(cuFuncGetName(&name, f));
    if (!strcmp(name, "cold44")) listed.function = f;
  }
  EXPECT(listed.function != nullptr);
  CK(cuLibraryGetKernel(&listed.kernel, library, "cold44"));
  return listed;
}

std::string loads(const std::function<CUresult(const Listed &)> &call) {
  const Listed listed = listed_cold();
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
  CK(cuFuncIsLoaded(&state, listed.function));
  EXPECT(state == CU_FUNCTION_LOADING_STATE_UNLOADED);
  const CUresult r = call(listed);
  CK(cuFuncIsLoaded(&state, listed.function));
  if (r != CUDA_SUCCESS) return lg::error_name(r);
  return state == CU_FUNCTION_LOADING_STATE_LOADED ? "loads it" : "does not load it";
}

std::string in_capture(CUstream stream, CUstreamCaptureMode mode, const std::function<CUresult()> &call) {
  CK(cuStreamBeginCapture(stream, mode));
  const CUresult r = call();
  CUgraph graph = nullptr;
  const CUresult end = cuStreamEndCapture(stream, &graph);
  const std::string end_word = end == CUDA_SUCCESS                              ? "the capture ends well"
                               : end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ? "the capture is invalidated"
                                                                               : lg::error_name(end);
  const char *name = "?";
  CK(cuGetErrorName(r, &name));
  return std::string(name) + ", " + end_word;
}

std::string looked_up(const char *symbol, int version, cuuint64_t flags) {
  char untouched = 0;
  void *pointer = &untouched;
  auto status = static_cast<CUdriverProcAddressQueryResult>(99);
  const CUresult r = cuGetProcAddress(symbol, &pointer, version, flags, &status);
  Dl_info info{};
  std::string found = pointer == &untouched ? "pointer untouched" : pointer == nullptr ? "no pointer" : "a pointer";
  if (pointer && pointer != &untouched && dladdr(pointer, &info) && info.dli_sname) found = info.dli_sname;
  return std::string(lg::error_name(r)) + ", status " + (status == 99 ? "untouched" : std::to_string(status)) + ", " + found;
}

std::string first_look_up(const char *symbol, int version) {
  using First = CUresult (*)(const char *, void **, int, cuuint64_t);
  void *first = nullptr;
  CK(cuGetProcAddress("cuGetProcAddress", &first, 11030, 0, nullptr));
  char untouched = 0;
  void *pointer = &untouched;
  const CUresult r = reinterpret_cast<First>(first)(symbol, &pointer, version, 0);
  return std::string(lg::error_name(r)) + ", " + (pointer == &untouched ? "pointer untouched" : "pointer set");
}

std::string in_forked_child() {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(cuInit(0)));
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? lg::error_name(WEXITSTATUS(status)) : "the child does not exit";
}

std::string on_new_thread(const std::function<CUresult()> &call) {
  CUresult r = CUDA_SUCCESS;
  std::thread([&] { r = call(); }).join();
  return lg::error_name(r);
}

size_t stack_limit() {
  size_t value = 0;
  CK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  return value;
}

// A second context, for questions about its local memory: what its limit is after this, and how much less memory is free.
struct Sized : Fresh {
  const size_t free_before = free_memory();
  static size_t free_memory() {
    size_t free, total;
    CK(cuMemGetInfo(&free, &total));
    return free;
  }
  std::string limit() const { return std::to_string(stack_limit()); }
  std::string less() const { return std::to_string((free_before - free_memory()) >> 20) + " MB less"; }
};

std::string sized(const std::function<void(Sized &)> &after, std::string (Sized::*answer)() const) {
  Sized context;
  after(context);
  return (context.*answer)();
}

std::map<std::string, Answer> answers(Bench &b) {
  const CUdeviceptr buf = device().buffer;
  const CUdevice dev = device().session.device;
  const auto image = device().image.data();
  std::map<std::string, Answer> a;
  static CUdeviceptr memory;
  static void *host;
  static CUmodule module;
  static CUlibrary library;
  static CUkernel kernel;
  static CUstream stream;
  static CUevent event;
  static CUgraphExec exec;
  static CUcontext context;

  auto new_library = [=](bool used) {
    CK(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CK(cuLibraryGetKernel(&kernel, library, "warm"));
    if (used) CK(launch_one(reinterpret_cast<CUfunction>(kernel), static_cast<CUstream>(nullptr), buf));
    CK(cuCtxSynchronize());
  };
  auto row = [&](const char *question, Answer answer) { a[question] = std::move(answer); };

  row("write value during a blocked cuModuleLoadData",
      [=, &b](const std::string &x) { return write_during(b, x, [=] { return cuModuleLoadData(&module, image); }); });
  row("write value during a blocked first launch of a library", [=, &b](const std::string &x) {
    new_library(false);
    return write_during(b, x, [=, &b] { return launch_one(reinterpret_cast<CUfunction>(kernel), b.s[1], buf); });
  });
  row("write value during a blocked cuCtxSetLimit(STACK)", [=, &b](const std::string &x) {
    CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    return write_during(b, x, [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096); });
  });
  row("write value during a blocked launch that grows local memory", [=, &b](const std::string &x) {
    CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    return write_during(b, x, [=, &b] { return launch_one(b.big, b.s[1], buf, 3); });
  });
  row("write value during a blocked cuMemFree", [=, &b](const std::string &x) {
    CK(cuMemAlloc(&memory, 4096));
    return write_during(b, x, [] { return cuMemFree(memory); });
  });
  row("write value during a blocked cuMemFreeHost", [=, &b](const std::string &x) {
    CK(cuMemHostAlloc(&host, 4096, 0));
    return write_during(b, x, [] { return cuMemFreeHost(host); });
  });
  row("write value during a blocked cuMemHostUnregister", [=, &b](const std::string &x) {
    CK(cuMemHostRegister(b.pageable.data(), 4096, 0));
    return write_during(b, x, [&b] { return cuMemHostUnregister(b.pageable.data()); });
  });
  row("write value during a blocked cuModuleUnload", [=, &b](const std::string &x) {
    CK(cuModuleLoadData(&module, image));
    return write_during(b, x, [] { return cuModuleUnload(module); });
  });
  row("write value during a blocked cuLibraryUnload", [=, &b](const std::string &x) {
    new_library(true);
    return write_during(b, x, [] { return cuLibraryUnload(library); });
  });
  row("write value during a blocked cuCtxSynchronize",
      [=, &b](const std::string &x) { return write_during(b, x, [] { return cuCtxSynchronize(); }); });

  row("warm launch during a blocked cuMemcpyHtoD behind a blocking stream", [=, &b](const std::string &x) {
    return launch_during(b, b.blocking, x, {[=, &b] { return cuMemcpyHtoD(buf, b.pageable.data(), 4096); }});
  });
  row("warm launch during a blocked cuMemcpyDtoH behind a blocking stream", [=, &b](const std::string &x) {
    return launch_during(b, b.blocking, x, {[=, &b] { return cuMemcpyDtoH(b.pageable.data(), buf, 4096); }});
  });
  row("warm launch during a blocked cuStreamSynchronize(NULL)",
      [=, &b](const std::string &x) { return launch_during(b, b.blocking, x, {[] { return cuStreamSynchronize(nullptr); }}); });
  row("warm launch while a full queue blocks one thread and cuMemAlloc a second", [=, &b](const std::string &x) {
    auto fill = [=, &b] {
      CUresult r = CUDA_SUCCESS;
      for (int i = 0; i < 1600 && r == CUDA_SUCCESS; i++) r = launch_one(b.warm, b.s[0], buf);
      return r;
    };
    return launch_during(b, b.s[0], x, {fill, [] { return cuMemAlloc(&memory, 4096); }});
  });
  row("launches a stream takes behind a spin",
      [=, &b](const std::string &) { return taken_behind_spin(b, 3000, [=, &b] { return launch_one(b.warm, b.s[0], buf); }); });
  row("event records a stream takes behind a spin, of 3000", [=, &b](const std::string &) {
    CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return taken_behind_spin(b, 3000, [&b] { return cuEventRecord(event, b.s[0]); });
  });
  row("cuMemcpyHtoDAsync of 128 KB from pageable memory behind a spin", [=, &b](const std::string &x) {
    return beside_spin(b, b.s[0], x, [=, &b] { return cuMemcpyHtoDAsync(buf, b.pageable.data(), 128 << 10, b.s[0]); });
  });
  row("cuMemcpyHtoDAsync of 1 MB from pageable memory behind a spin", [=, &b](const std::string &x) {
    return beside_spin(b, b.s[0], x, [=, &b] { return cuMemcpyHtoDAsync(buf, b.pageable.data(), 1 << 20, b.s[0]); });
  });
  row("cuPointerGetAttribute of pageable memory's type behind a spin", [=, &b](const std::string &x) {
    return beside_spin(b, b.s[0], x, [&b] {
      int type = 0;
      const CUresult result = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(b.pageable.data()));
      return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    });
  });

  row("cuCtxSetLimit(STACK) to what it is", [=, &b](const std::string &x) {
    const size_t now = stack_limit();
    return beside_spin(b, b.s[0], x, [=] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, now); });
  });
  row("cuCtxSetLimit(STACK) to less", [=, &b](const std::string &x) {
    CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    return beside_spin(b, b.s[0], x, [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024); });
  });
  row("cuCtxSetLimit(PRINTF_FIFO) once a kernel that prints was launched", [=, &b](const std::string &x) {
    CUfunction prints;
    CK(cuModuleGetFunction(&prints, b.module, "withprintf"));
    CK(launch_one(prints, b.s[1], buf));
    CK(cuCtxSynchronize());
    return beside_spin(b, b.s[0], x, [] { return cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 8 << 20); });
  });
  row("cuCtxSetLimit(MALLOC_HEAP) to more", [=, &b](const std::string &x) {
    return beside_spin(b, b.s[0], x, [] { return cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20); });
  });
  row("cuCtxDestroy of an idle second context", [=, &b](const std::string &x) {
    CUctxCreateParams p{};
    CUcontext popped;
    CK(cuCtxCreate(&context, &p, 0, dev));
    CK(cuCtxPopCurrent(&popped));
    return beside_spin(b, b.s[0], x, [] { return cuCtxDestroy(context); });
  });
  row("cuMemFree(0)", [=, &b](const std::string &x) { return beside_spin(b, b.s[0], x, [] { return cuMemFree(0); }, true); });
  row("cuLibraryUnload of a library never in the context", [=, &b](const std::string &x) {
    new_library(false);
    return beside_spin(b, b.s[0], x, [] { return cuLibraryUnload(library); });
  });
  row("cuStreamDestroy of a busy stream", [=, &b](const std::string &x) {
    CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return beside_spin(b, stream, x, [] { return cuStreamDestroy(stream); });
  });
  row("cuEventDestroy of a pending event", [=, &b](const std::string &x) {
    CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return beside_spin(b, b.s[0], x, [&b] {
      const CUresult r = cuEventRecord(event, b.s[0]);
      return r == CUDA_SUCCESS ? cuEventDestroy(event) : r;
    });
  });
  row("cuGraphExecDestroy of a pending graph", [=, &b](const std::string &x) {
    CUgraph graph;
    CUgraphNode node;
    CK(cuGraphCreate(&graph, 0));
    CK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
    CK(cuGraphInstantiate(&exec, graph, 0));
    return beside_spin(b, b.s[0], x, [&b] {
      const CUresult r = cuGraphLaunch(exec, b.s[0]);
      return r == CUDA_SUCCESS ? cuGraphExecDestroy(exec) : r;
    });
  });

  row("cuFuncSetAttribute on a listed cold handle", [](const std::string &) {
    return loads([](const Listed &l) { return cuFuncSetAttribute(l.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024); });
  });
  row("cuFuncSetCacheConfig on a listed cold handle", [](const std::string &) {
    return loads([](const Listed &l) { return cuFuncSetCacheConfig(l.function, CU_FUNC_CACHE_PREFER_L1); });
  });
  row("cuKernelSetCacheConfig on a cold kernel", [=](const std::string &) {
    return loads([=](const Listed &l) { return cuKernelSetCacheConfig(l.kernel, CU_FUNC_CACHE_PREFER_L1, dev); });
  });
  row("cuFuncGetModule on a listed cold handle",
      [](const std::string &) { return loads([](const Listed &l) { return cuFuncGetModule(&module, l.function); }); });
  row("cuFuncGetParamInfo on a listed cold handle", [](const std::string &) {
    return loads([](const Listed &l) {
      size_t offset, bytes;
      return cuFuncGetParamInfo(l.function, 0, &offset, &bytes);
    });
  });
  row("cuFuncGetAttribute on a CUkernel", [](const std::string &) {
    int value;
    return lg::error_name(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, reinterpret_cast<CUfunction>(listed_cold().kernel)));
  });
  row("cuFuncGetName on a CUkernel", [](const std::string &) {
    const char *name;
    return lg::error_name(cuFuncGetName(&name, reinterpret_cast<CUfunction>(listed_cold().kernel)));
  });
  row("cuFuncGetAttribute of a loaded kernel's function after cuKernelSetAttribute in another context", [=](const std::string &) {
    const Listed listed = listed_cold();
    CUfunction function;
    int bytes = 0;
    CK(cuKernelGetFunction(&function, listed.kernel));
    CK(cuCtxCreate(&context, nullptr, 0, dev));
    CK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 * 1024, listed.kernel, dev));
    CK(cuCtxDestroy(context));
    CK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    return std::to_string(bytes) + " bytes";
  });
  row("cuModuleUnload of a library's module", [=](const std::string &) {
    new_library(false);
    CK(cuLibraryGetModule(&module, library));
    const char *name = "?";
    CK(cuGetErrorName(cuModuleUnload(module), &name));
    return name;
  });
  row("cuGraphAddKernelNode with a CUkernel as function", [=](const std::string &) {
    CUDA_KERNEL_NODE_PARAMS p{};
    CUdeviceptr argument = buf;
    void *arguments[] = {&argument};
    p.func = reinterpret_cast<CUfunction>(listed_cold().kernel);
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    CUgraph graph;
    CUgraphNode node;
    CK(cuGraphCreate(&graph, 0));
    return lg::error_name(cuGraphAddKernelNode(&node, graph, nullptr, 0, &p));
  });

  static const char no_image[4096] = "no image";
  row("cuLibraryLoadData of what is no image", [](const std::string &) {
    return lg::error_name(cuLibraryLoadData(&library, no_image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  });
  row("cuLibraryGetKernel of what is no image", [](const std::string &) {
    CK(cuLibraryLoadData(&library, no_image, nullptr, nullptr, 0, nullptr, nullptr, 0));
    return lg::error_name(cuLibraryGetKernel(&kernel, library, "warm"));
  });
  row("cuModuleLoadData of what is no image", [](const std::string &) { return lg::error_name(cuModuleLoadData(&module, no_image)); });
  row("launch into a named stream with no context current", [=, &b](const std::string &) {
    return on_new_thread([=, &b] { return launch_one(b.warm, b.s[1], buf); });
  });
  row("cuMemAlloc with no context current",
      [](const std::string &) { return on_new_thread([] { return cuMemAlloc(&memory, 4096); }); });
  row("cuMemAlloc in a host function", [&b](const std::string &) {
    static CUresult result;
    CK(cuLaunchHostFunc(b.s[1], [](void *) { result = cuMemAlloc(&memory, 4096); }, nullptr));
    CK(cuStreamSynchronize(b.s[1]));
    const char *name = "?";
    CK(cuGetErrorName(result, &name));
    return name;
  });
  auto nothing = [](Fresh &) {};
  auto warm_launch = [](Fresh &f) { CK(launch_one(f.warm, f.s[1], f.memory)); };
  row("first launch of a context beside an unsatisfied wait, one of its modules prints",
      [=](const std::string &x) { return beside_wait(x, nothing, warm_launch); });
  row("write value on another stream, behind that", [=](const std::string &x) {
    return beside_wait(x, nothing, [](Fresh &f) {
      CK(launch_one(f.warm, f.s[2], f.memory));
      CK(cuStreamWriteValue32(f.s[1], f.memory, 1, 0));
    });
  });
  row("first launch of a function beside an unsatisfied wait, one of its modules prints, another function launched before", [=](const std::string &x) {
    return beside_wait(x, warm_launch, [](Fresh &f) { CK(launch_one(f.setflag, f.s[1], f.memory)); });
  });
  row("first launch of a context beside an unsatisfied wait, one of its modules prints, a graph with a kernel instantiated before", [=](const std::string &x) {
    return beside_wait(x, [](Fresh &f) {
      CUgraph graph;
      CUgraphExec made;
      CK(cuStreamBeginCapture(f.s[1], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
      CK(launch_one(f.warm, f.s[1], f.memory));
      CK(cuStreamEndCapture(f.s[1], &graph));
      CK(cuGraphInstantiate(&made, graph, 0));
    }, warm_launch);
  });
  row("first launch of a kernel that prints beside an unsatisfied wait, another function launched before", [=](const std::string &x) {
    return beside_wait(x, warm_launch, [](Fresh &f) { CK(launch_one(f.prints, f.s[1], f.memory)); });
  });
  row("warm launch on another stream, behind that", [=](const std::string &x) {
    return beside_wait(x, warm_launch, [](Fresh &f) {
      CK(launch_one(f.prints, f.s[2], f.memory));
      CK(launch_one(f.warm, f.s[1], f.memory));
    });
  });
  row("launch of a kernel that prints beside an unsatisfied wait, launched before", [=](const std::string &x) {
    auto print = [](Fresh &f) { CK(launch_one(f.prints, f.s[1], f.memory)); };
    return beside_wait(x, print, print);
  });
  row("first launch of a context beside an unsatisfied wait, no module prints", [](const std::string &x) {
    CUcontext silent;
    CUmodule module;
    CUfunction nothing_at_all;
    CUstream waits, works;
    CK(cuCtxCreate(&silent, nullptr, 0, device().session.device));
    CK(cuModuleLoadData(&module, kPtx));
    CK(cuModuleGetFunction(&nothing_at_all, module, "nothing"));
    CK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CK(cuStreamCreate(&works, CU_STREAM_NON_BLOCKING));
    const lg::MappedWord word = lg::mapped_word();
    CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
    CK(launch_one(nothing_at_all, works, word.device));
    const std::string seen = ran(runs_dry(works, x == "runs"));
    *word.host = 1;
    CK(cuCtxSynchronize());
    CK(cuCtxDestroy(silent));
    CK(cuCtxSetCurrent(device().session.context));
    return seen;
  });
  row("first memset and first copy of a context beside an unsatisfied wait", [=](const std::string &x) {
    return beside_wait(x, nothing, [](Fresh &f) {
      CK(cuMemsetD32Async(f.memory, 1, 1, f.s[1]));
      CK(cuMemcpyHtoDAsync(f.memory, const_cast<int *>(f.word.host), sizeof(int), f.s[1]));
    });
  });
  row("first launch of a context beside a host function that does not return, one of its modules prints",
      [=](const std::string &x) { return beside_host_function(x, warm_launch); });
  row("host function beside one that does not return, on another stream", [=](const std::string &x) {
    return beside_host_function(x, [](Fresh &f) { CK(cuLaunchHostFunc(f.s[1], [](void *) {}, nullptr)); });
  });
  row("stream callback beside a host function that does not return, on another stream", [=](const std::string &x) {
    return beside_host_function(x, [](Fresh &f) { CK(cuStreamAddCallback(f.s[1], [](CUstream, CUresult, void *) {}, nullptr, 0)); });
  });
  row("host function in another context than one that does not return", [=, &b](const std::string &x) {
    return beside_host_function(x, [&b](Fresh &f) {
      CK(cuCtxSetCurrent(device().session.context));
      CK(cuLaunchHostFunc(b.s[1], [](void *) {}, nullptr));
      CK(cuCtxSetCurrent(f.context));
    }, b.s[1]);
  });
  row("cuInit in a child forked after cuInit", [](const std::string &) { return in_forked_child(); });

  row("cuMemAlloc in a global capture", [&b](const std::string &) {
    return in_capture(b.s[3], CU_STREAM_CAPTURE_MODE_GLOBAL, [] { return cuMemAlloc(&memory, 4096); });
  });
  row("cuStreamQuery in a global capture", [&b](const std::string &) {
    return in_capture(b.s[3], CU_STREAM_CAPTURE_MODE_GLOBAL, [&b] { return cuStreamQuery(b.s[1]); });
  });
  row("cuEventQuery in a relaxed capture", [&b](const std::string &) {
    CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return in_capture(b.s[3], CU_STREAM_CAPTURE_MODE_RELAXED, [] { return cuEventQuery(event); });
  });
  row("cuCtxSynchronize in a relaxed capture", [&b](const std::string &) {
    return in_capture(b.s[3], CU_STREAM_CAPTURE_MODE_RELAXED, [] { return cuCtxSynchronize(); });
  });
  row("legacy launch beside a capturing blocking stream", [=, &b](const std::string &) {
    return in_capture(b.blocking, CU_STREAM_CAPTURE_MODE_RELAXED,
                      [=, &b] { return launch_one(b.warm, static_cast<CUstream>(nullptr), buf); });
  });
  row("legacy launch beside a capturing non-blocking stream", [=, &b](const std::string &) {
    return in_capture(b.s[3], CU_STREAM_CAPTURE_MODE_RELAXED,
                      [=, &b] { return launch_one(b.warm, static_cast<CUstream>(nullptr), buf); });
  });

  constexpr cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM, per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  auto look_up = [&](const char *question, const char *symbol, int version, cuuint64_t flags) {
    row(question, [=](const std::string &) { return looked_up(symbol, version, flags); });
  };
  look_up("cuGetProcAddress(cuLaunchKernel, 6000, per thread)", "cuLaunchKernel", 6000, per_thread);
  look_up("cuGetProcAddress(cuLaunchKernel, 12000, per thread)", "cuLaunchKernel", 12000, per_thread);
  look_up("cuGetProcAddress(cuLaunchKernel, 12000, legacy and per thread)", "cuLaunchKernel", 12000, legacy | per_thread);
  look_up("cuGetProcAddress(cuLaunchKernel, 99000)", "cuLaunchKernel", 99000, 0);
  look_up("cuGetProcAddress(cuLaunchKernel, 2000)", "cuLaunchKernel", 2000, 0);
  look_up("cuGetProcAddress(cuMemAlloc, 12000, per thread)", "cuMemAlloc", 12000, per_thread);
  look_up("cuGetProcAddress(cuMemAlloc_v2, 12000)", "cuMemAlloc_v2", 12000, 0);
  look_up("cuGetProcAddress(cuGraphInstantiate, 13000)", "cuGraphInstantiate", 13000, 0);
  row("cuGetProcAddress(cuNoSuch, 12000), first form", [](const std::string &) { return first_look_up("cuNoSuch", 12000); });

  auto set = [](size_t to) { return [to](Sized &) { CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, to)); }; };
  auto launch_big = [](Sized &s) {
    CK(launch_one(s.big, s.s[0], s.memory, 3));
    CK(cuCtxSynchronize());
  };
  row("cuCtxGetLimit(STACK) of a fresh context", [](const std::string &) { return sized([](Sized &) {}, &Sized::limit); });
  for (const size_t to : {1000, 1024, 1025, 4096, 32768, 33000}) {
    const std::string after = " after cuCtxSetLimit";
    row(("cuCtxGetLimit(STACK)" + after + " to " + std::to_string(to)).c_str(), [=](const std::string &) { return sized(set(to), &Sized::limit); });
    row(("cuMemGetInfo" + after + "(STACK) to " + std::to_string(to)).c_str(), [=](const std::string &) { return sized(set(to), &Sized::less); });
  }
  row("cuMemGetInfo after cuCtxSetLimit(STACK) to 33000 and back to 1024", [=](const std::string &) {
    return sized([=](Sized &s) {
      set(33000)(s);
      set(1024)(s);
    }, &Sized::less);
  });
  row("cuCtxGetLimit(STACK) after a launch that grows local memory", [=](const std::string &) { return sized(launch_big, &Sized::limit); });
  row("cuMemGetInfo after a launch that grows local memory", [=](const std::string &) { return sized(launch_big, &Sized::less); });
  row("cuCtxGetId of the primary context, released and retained twice", [](const std::string &) { return device().primary_ids; });
  static const std::vector<char> fat_binary = lg::as_fat_binary(device().image);
  row("cuModuleLoadFatBinary of a reference to a fat binary", [](const std::string &) {
    const lg::FatbinWrapper reference = {0x466243b1, 1, fat_binary.data(), nullptr};
    return lg::error_name(cuModuleLoadFatBinary(&module, &reference));
  });
  row("cuModuleLoadData of a fat binary", [](const std::string &) { return lg::error_name(cuModuleLoadData(&module, fat_binary.data())); });
  return a;
}

}  // namespace

void walk_further_answers(const std::string &path) {
  Tally tally("further-answers.tsv");
  Bench b;
  b.word = lg::mapped_word();
  b.pageable.assign(1 << 20, 1);
  for (CUstream &s : b.s) CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  CK(cuStreamCreate(&b.blocking, CU_STREAM_DEFAULT));
  CK(cuModuleLoadData(&b.module, device().image.data()));
  CK(cuModuleGetFunction(&b.spin, b.module, "spin"));
  CK(cuModuleGetFunction(&b.warm, b.module, "warm"));
  CK(cuModuleGetFunction(&b.big, b.module, "bigstack"));
  for (CUstream s : b.s) CK(launch_one(b.warm, s, device().buffer));
  CK(launch_one(b.warm, b.blocking, device().buffer));
  CK(cuCtxSynchronize());

  const std::map<std::string, Answer> known = answers(b);
  const std::vector<std::string> lines = lines_of(path);
  for (size_t i = 1; i < lines.size(); i++) {
    const std::vector<std::string> cells = split(lines[i], '\t');
    auto answer = known.find(cells[0]);
    if (answer == known.end() || cells.size() != 2)
      tally.unknown(lines[i]);
    else
      tally.cell(cells[0], cells[1], answer->second(cells[1]));
  }
}

}  // namespace conformance
