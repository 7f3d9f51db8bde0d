// calls-during-a-blocked-call.txt: one thread is blocked inside the driver; which calls still answer on another?
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
  CUkernel cold = nullptr;
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
  };
}

std::map<std::string, std::function<CUresult()>> calls(Bench &b) {
  const CUdeviceptr buf = device().buffer;
  const CUdevice dev = device().session.device;
  return {
      {"cuStreamQuery(idle)", [&b] { return cuStreamQuery(b.s[2]); }},
      {"cuStreamQuery(busy)", [&b] { return cuStreamQuery(b.s[0]); }},
      {"cuEventQuery(idle)", [&b] { return cuEventQuery(b.idle); }},
      {"cuEventQuery(busy)", [&b] { return cuEventQuery(b.busy); }},
      {"cuCtxGetCurrent", [] { CUcontext c; return cuCtxGetCurrent(&c); }},
      {"cuDeviceGetAttribute", [=] { int v; return cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev); }},
      {"cuCtxGetLimit", [] { size_t v; return cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE); }},
      {"cuMemGetInfo", [] { size_t free, total; return cuMemGetInfo(&free, &total); }},
      {"cuFuncIsLoaded", [&b] { CUfunctionLoadingState s; return cuFuncIsLoaded(&s, b.warm); }},
      {"cuFuncGetName", [&b] { const char *n; return cuFuncGetName(&n, b.warm); }},
      {"cuFuncGetAttribute(warm)", [&b] { int v; return cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, b.warm); }},
      {"cuStreamIsCapturing", [&b] { CUstreamCaptureStatus s; return cuStreamIsCapturing(b.s[3], &s); }},
      {"cuStreamGetCtx", [&b] { CUcontext c; return cuStreamGetCtx(b.s[3], &c); }},
      {"cuPointerGetAttribute", [=] { unsigned v; return cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buf); }},
      {"cuLaunchKernel(warm)", [=, &b] { return launch_one(b.warm, b.s[3], buf); }},
      {"cuStreamWriteValue32", [=, &b] { return cuStreamWriteValue32(b.s[4], buf + 64, 1, 0); }},
      {"cuMemcpyDtoHAsync(pinned)", [=, &b] { return cuMemcpyDtoHAsync(const_cast<int *>(b.word.host), buf, 4, b.s[5]); }},
      {"cuEventRecord", [&b] { return cuEventRecord(b.idle, b.s[6]); }},
      {"cuMemAlloc", [] { CUdeviceptr p; return cuMemAlloc(&p, 4096); }},
      {"cuStreamCreate", [] { CUstream s; return cuStreamCreate(&s, CU_STREAM_NON_BLOCKING); }},
      {"cuModuleGetFunction(warm)", [&b] { CUfunction f; return cuModuleGetFunction(&f, b.module, "warm"); }},
      {"cuCtxGetDevice", [] { CUdevice d; return cuCtxGetDevice(&d); }},
      {"cuDriverGetVersion", [] { int v; return cuDriverGetVersion(&v); }},
      {"cuStreamSynchronize(idle)", [&b] { return cuStreamSynchronize(b.s[7]); }},
  };
}

void walk_row(Tally &tally, Bench &b, const std::string &section, const Blocker &blocker, const std::string &name,
              const std::function<CUresult()> &call, bool blocks) {
  Device &d = device();
  *d.flag.host = 0;
  CK(cuEventRecord(b.idle, b.s[2]));
  CK(cuStreamSynchronize(b.s[2]));
  blocker.prepare();
  CK(launch_one(b.spin, b.s[0], d.flag.device));
  CK(cuEventRecord(b.busy, b.s[0]));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::atomic<bool> blocker_done{false};
  std::thread blocked([&] {
    CK(cuCtxSetCurrent(d.session.context));
    CK(blocker.call());
    blocker_done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const bool blocker_blocks = !blocker_done;
  const Outcome outcome = call_beside(name, blocks ? Expect::blocks : Expect::returns, call, [&](bool) { *d.flag.host = 1; });
  blocked.join();
  CK(cuCtxSynchronize());
  const std::string what = name + " during " + section;
  if (!blocker_blocks) tally.cell(what, section + " blocks", section + " returns");
  tally.cell(what, word(blocks), word(outcome.blocked));
  const bool busy = name == "cuStreamQuery(busy)" || name == "cuEventQuery(busy)";
  if (outcome.result != (busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS)) tally.cell(what, "a good answer", lg::error_name(outcome.result));
}

}  // namespace

void walk_calls_during_a_blocked_call(const std::string &path) {
  const std::string heading = "== during a blocked ";
  Tally tally("calls-during-a-blocked-call.txt");
  Bench b;
  b.word = lg::mapped_word();
  for (CUstream &s : b.s) CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  CK(cuModuleLoadData(&b.module, device().image.data()));
  CK(cuModuleGetFunction(&b.spin, b.module, "spin"));
  CK(cuModuleGetFunction(&b.warm, b.module, "warm"));
  for (CUstream s : b.s) CK(launch_one(b.warm, s, device().buffer));
  CK(cuEventCreate(&b.idle, CU_EVENT_DISABLE_TIMING));
  CK(cuEventCreate(&b.busy, CU_EVENT_DISABLE_TIMING));
  CK(cuCtxSynchronize());

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

}  // namespace conformance
