// context-question-and-capture.txt: cuCtxRecordEvent as the question whether a context is idle, and what a capture bears.
#include "conformance.hpp"

namespace conformance {
namespace {

using lg::launch_one;

struct Bench {
  CUlibrary library = nullptr;
  CUfunction spin = nullptr, warm = nullptr;
  CUstream st[4] = {};
  CUevent event = nullptr;
  int next_cold = 100;
  CUkernel kernel(const std::string &name) const {
    CUkernel k;
    CK(cuLibraryGetKernel(&k, library, name.c_str()));
    return k;
  }
};

const char *ready(CUresult r) { return r == CUDA_SUCCESS ? "SUCCESS" : r == CUDA_ERROR_NOT_READY ? "NOT_READY" : lg::error_name(r); }

void walk_question(Tally &tally, Bench &b, const std::string &line, const std::string &what, const std::function<void()> &put_in_flight) {
  Device &d = device();
  *d.flag.host = 0;
  put_in_flight();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  const CUresult recorded = cuCtxRecordEvent(d.session.context, b.event);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const CUresult queried = cuEventQuery(b.event);
  const CUresult legacy = cuStreamQuery(nullptr);
  CK(launch_one(b.warm, b.st[2], d.buffer));
  const bool runs = runs_dry(b.st[2], true);
  *d.flag.host = 1;
  CK(cuCtxSynchronize());
  // The columns after the name: cuCtxRecordEvent, cuEventQuery, cuStreamQuery(NULL), a warm launch made after it.
  char record_word[16] = "", query_word[32] = "", legacy_word[32] = "", launch_word[32] = "";
  if (sscanf(line.c_str() + what.size(), " %15s %*s us %31s %31s %31s", record_word, query_word, legacy_word, launch_word) != 4) {
    tally.unknown(line);
    return;
  }
  tally.cell(what + ", cuCtxRecordEvent", record_word, recorded == CUDA_SUCCESS ? "ok" : lg::error_name(recorded));
  tally.cell(what + ", cuEventQuery", query_word, ready(queried));
  tally.cell(what + ", cuStreamQuery(NULL)", legacy_word, ready(legacy));
  tally.cell(what + ", a warm launch", launch_word, runs ? "runs" : "stalled");
}

struct During {
  CUresult function = CUDA_SUCCESS, library = CUDA_SUCCESS, module = CUDA_SUCCESS, query = CUDA_SUCCESS, record = CUDA_SUCCESS;
  CUresult end = CUDA_SUCCESS;
};

struct How {
  CUstreamCaptureMode mode;
  bool other_thread, exchanged, loads, queries, records;
};

During capture(Bench &b, const How &how) {
  During seen;
  CK(cuStreamBeginCapture(b.st[3], how.mode));
  CK(launch_one(b.warm, b.st[3], device().buffer));
  auto body = [&] {
    CK(cuCtxSetCurrent(device().session.context));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (how.exchanged) CK(cuThreadExchangeStreamCaptureMode(&mode));
    CUfunction f;
    if (how.loads) {
      CUlibrary library;
      CUkernel k;
      seen.function = cuKernelGetFunction(&f, b.kernel("cold" + std::to_string(b.next_cold++)));
      seen.library = cuLibraryLoadData(&library, device().image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
      CK(cuLibraryGetKernel(&k, library, "cold50"));
      seen.module = cuKernelGetFunction(&f, k);
    }
    if (how.queries) seen.query = cuStreamQuery(b.st[1]);
    if (how.records) seen.record = cuCtxRecordEvent(device().session.context, b.event);
    if (how.exchanged) CK(cuThreadExchangeStreamCaptureMode(&mode));
  };
  if (how.other_thread)
    std::thread(body).join();
  else
    body();
  CUgraph graph = nullptr;
  seen.end = cuStreamEndCapture(b.st[3], &graph);
  return seen;
}

void each_way(const std::function<void(const std::string &, How)> &f) {
  const std::pair<CUstreamCaptureMode, const char *> modes[] = {{CU_STREAM_CAPTURE_MODE_GLOBAL, "global"},
                                                                {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread-local"},
                                                                {CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed"}};
  for (const auto &[mode, name] : modes)
    for (bool other_thread : {false, true})
      for (bool exchanged : {false, true})
        f(std::string(name) + (other_thread ? ", other thread" : ", same thread") + (exchanged ? ", exchanged" : ", as it is"),
          {mode, other_thread, exchanged, false, false, false});
}

const char *capture_word(CUresult r) {
  if (r == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return "CAPTURE_UNSUPPORTED";
  if (r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return "INVALIDATED";
  return ready(r);
}

}  // namespace

void walk_context_question_and_capture(const std::string &path) {
  Tally tally("context-question-and-capture.txt");
  Device &d = device();
  Bench b;
  for (CUstream &s : b.st) CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  CK(cuLibraryLoadData(&b.library, d.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuKernelGetFunction(&b.spin, b.kernel("spin")));
  CK(cuKernelGetFunction(&b.warm, b.kernel("warm")));
  CK(launch_one(b.warm, b.st[1], d.buffer));
  CK(cuEventCreate(&b.event, CU_EVENT_DISABLE_TIMING));
  CK(cuCtxSynchronize());

  const std::map<std::string, std::function<void()>> in_flight = {
      {"nothing", [] {}},
      {"kernel spinning on a non-blocking stream", [&] { CK(launch_one(b.spin, b.st[0], d.flag.device)); }},
      {"unsatisfied wait value on a non-blocking stream",
       [&] { CK(cuStreamWaitValue32(b.st[0], d.flag.device, 1, CU_STREAM_WAIT_VALUE_EQ)); }},
      {"kernel spinning on another thread's per-thread stream",
       [&] {
         std::thread([&] {
           CK(cuCtxSetCurrent(d.session.context));
           CK(launch_one(b.spin, CU_STREAM_PER_THREAD, d.flag.device));
         }).join();
       }},
  };
  for (const std::string &line : lines_of(path)) {
    const std::string what = line.substr(0, line.find("  "));
    if (auto found = in_flight.find(what); found != in_flight.end()) {
      walk_question(tally, b, line, what, found->second);
    } else if (begins(line, "in flight ")) {
      continue;  // the heading of the rows above
    } else if (begins(line, "loading a function, a library, a module ")) {
      each_way([&](const std::string &way, How how) {
        how.loads = true;
        const During seen = capture(b, how);
        tally.cell("loading a function, " + way, "SUCCESS", capture_word(seen.function));
        tally.cell("loading a library, " + way, "SUCCESS", capture_word(seen.library));
        tally.cell("loading a module, " + way, "SUCCESS", capture_word(seen.module));
        tally.cell("the capture's end after loading, " + way, "SUCCESS", capture_word(seen.end));
      });
    } else if (begins(line, "cuStreamQuery of another stream, thread's mode exchanged to relaxed")) {
      each_way([&](const std::string &way, How how) {
        how.queries = true;
        if (!how.exchanged) return;
        tally.cell("cuStreamQuery, " + way, "SUCCESS", capture_word(capture(b, how).query));
      });
    } else if (begins(line, "cuStreamQuery of another stream, mode as it is")) {
      each_way([&](const std::string &way, How how) {
        how.queries = true;
        if (how.exchanged) return;
        const bool refused = how.mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
                             (how.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !how.other_thread);
        tally.cell("cuStreamQuery, " + way, refused ? "CAPTURE_UNSUPPORTED" : "SUCCESS", capture_word(capture(b, how).query));
      });
    } else if (begins(line, "cuCtxRecordEvent ")) {
      each_way([&](const std::string &way, How how) {
        how.records = true;
        const During seen = capture(b, how);
        tally.cell("cuCtxRecordEvent, " + way, "CAPTURE_UNSUPPORTED", capture_word(seen.record));
        tally.cell("the capture's end after cuCtxRecordEvent, " + way, "INVALIDATED", capture_word(seen.end));
      });
    } else {
      tally.unknown(line);
    }
  }
  CK(cuCtxSynchronize());
}

}  // namespace conformance
