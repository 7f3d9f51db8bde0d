// Walks the ground truth's tables, performs every call they name, and says where the driver answers otherwise.
//
//   conformance [--beside] [TABLES]
//
// TABLES: the folder of the tables; by default the one in the repository this was built in. --beside: each table in a process of its own, all at
// once; most of the time is waiting. For the simulated driver: on a card, contexts that compete for it would answer later.
//
// Runs against the simulated driver or a real one: whichever libcuda.so.1 is found. Prints a line for each deviation and, last,
// "N passed, N failed"; exits with 1 when something failed.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "conformance.hpp"
#include "image.hpp"

namespace conformance {
namespace {
unsigned passed = 0, failed = 0;

using Clock = std::chrono::steady_clock;
constexpr auto kPatient = std::chrono::seconds(5);

std::chrono::milliseconds brief() { return std::chrono::milliseconds(device().simulated ? 60 : 300); }

bool wait_for(const std::atomic<bool> &done, Clock::duration longest) {
  const auto end = Clock::now() + longest;
  while (!done && Clock::now() < end) std::this_thread::sleep_for(std::chrono::microseconds(300));
  return done;
}
}  // namespace

const char kPtx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 nothing_param_0) { ret; }\n";

void Tally::cell(const std::string &what, const std::string &expected, const std::string &seen) {
  if (expected == seen) {
    passed++;
    return;
  }
  failed++;
  printf("%s: %s: expected %s, seen %s\n", table_.c_str(), what.c_str(), expected.c_str(), seen.c_str());
}

void Tally::unknown(const std::string &row) {
  failed++;
  printf("%s: this program does not know the row: %s\n", table_.c_str(), row.c_str());
}

bool Tally::tell(int to) {
  const unsigned counts[] = {passed, failed};
  return write(to, counts, sizeof counts) == sizeof counts;
}

bool Tally::add(int from) {
  unsigned counts[2];
  if (read(from, counts, sizeof counts) != sizeof counts) return false;
  passed += counts[0];
  failed += counts[1];
  return true;
}

int Tally::finish() {
  printf("%u passed, %u failed\n", passed, failed);
  return failed || !passed ? 1 : 0;
}

Device &device() {
  static Device d;
  return d;
}

Outcome call_beside(const std::string &name, Expect expect, const std::function<CUresult()> &call,
                    const std::function<void(bool)> &release) {
  std::atomic<bool> done{false};
  Outcome outcome;
  std::thread caller([&] {
    CK(cuCtxSetCurrent(device().session.context));
    outcome.result = call();
    done = true;
  });
  outcome.blocked = !wait_for(done, expect == Expect::blocks ? Clock::duration(brief()) : Clock::duration(kPatient));
  release(outcome.blocked);
  if (!wait_for(done, kPatient)) {
    printf("%s: does not come back after all work was released\n", name.c_str());
    fflush(stdout);
    std::_Exit(2);
  }
  caller.join();
  return outcome;
}

bool runs_dry(CUstream stream, bool expected) {
  const auto end = Clock::now() + (expected ? Clock::duration(kPatient) : Clock::duration(brief()));
  CUresult r;
  while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  return r == CUDA_SUCCESS;
}

// Retains and releases the primary context three times, which nothing has retained before. Returns what cuCtxGetId says each time, and says where
// the handle is not the first one.
std::string ids_of_the_primary_context() {
  std::string ids;
  CUcontext first = nullptr;
  CK(cuInit(0));
  for (int time = 0; time < 3; time++) {
    CUcontext context;
    unsigned long long id = 0;
    CK(cuDevicePrimaryCtxRetain(&context, 0));
    CK(cuCtxGetId(context, &id));
    if (time == 0) first = context;
    ids += (time == 0 ? "" : ", ") + std::to_string(id) + (context == first ? "" : " under another handle");
    CK(cuDevicePrimaryCtxRelease(0));
  }
  return ids;
}

std::vector<std::string> lines_of(const std::string &path) {
  std::ifstream file(path);
  if (!file) {
    fprintf(stderr, "cannot open %s\n", path.c_str());
    std::_Exit(2);
  }
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  return lines;
}

std::vector<std::string> split(const std::string &line, char separator) {
  std::vector<std::string> parts(1);
  for (char c : line) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool begins(const std::string &text, const std::string &with) { return text.compare(0, with.size(), with) == 0; }

std::string trimmed(const std::string &text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace conformance

using namespace conformance;

struct Table {
  void (*walk)(const std::string &path);
  const char *file;
};

constexpr Table kTables[] = {
    {walk_gpu_core_dumps, "gpu-core-dumps.txt"},
    {walk_lookups, "cudart-13.0-lookups.txt"},
    {walk_context_question_and_capture, "context-question-and-capture.txt"},
    {walk_stall_after_cold_load, "stall-after-cold-load.txt"},
    {walk_calls_during_a_blocked_call, "calls-during-a-blocked-call.txt"},
    {walk_calls_during_further_blocked_calls, "calls-during-further-blocked-calls.tsv"},
    {walk_further_answers, "further-answers.tsv"},
    {walk_blocking_matrix, "blocking-matrix.tsv"},
};

// The device, as the walks of all tables but that of core dumps want it: that one opens sessions of its own before there is a context.
void open_device() {
  Device &d = device();
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);  // what the tables were measured under
  d.primary_ids = ids_of_the_primary_context();
  d.session = lg::open_session();
  char name[256] = "";
  CK(cuDeviceGetName(name, sizeof name, d.session.device));
  d.simulated = begins(name, "Simulated");
  d.image = lg::image("probes");
  d.flag = lg::mapped_word();
  CK(cuMemAlloc(&d.buffer, 64 << 20));
  CK(cuMemsetD8(d.buffer, 0, 64 << 20));
  CK(cuCtxSynchronize());
}

[[noreturn]] void leave(int status) {
  fflush(stdout);
  std::_Exit(status);
}

[[noreturn]] void walk_all(const std::string &tables) {
  for (const Table &table : kTables) {
    if (table.walk != walk_gpu_core_dumps && !device().buffer) open_device();
    table.walk(tables + "/" + table.file);
  }
  leave(Tally::finish());
}

// Each child tells what it has counted by a pipe, and what it has found by its output.
[[noreturn]] void walk_beside_each_other(const std::string &tables) {
  int counts[2];
  if (pipe(counts) != 0) leave(2);
  for (const Table &table : kTables) {
    const pid_t child = fork();
    if (child < 0) leave(2);
    if (child > 0) continue;
    if (table.walk != walk_gpu_core_dumps) open_device();
    table.walk(tables + "/" + table.file);
    const bool told = Tally::tell(counts[1]);
    leave(told ? 0 : 2);
  }
  bool all_well = true;
  for (int status; wait(&status) > 0;) all_well &= status == 0;
  close(counts[1]);
  while (Tally::add(counts[0])) continue;
  const int status = Tally::finish();
  leave(all_well ? status : 2);
}

int main(int argc, char **argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool beside = argc > 1 && std::string(argv[1]) == "--beside";
  const int first = beside ? 2 : 1;
  const std::string tables = argc > first ? argv[first] : lg::folder_of_executable() + "/../../testapps/simdriver/ground-truth";
  beside ? walk_beside_each_other(tables) : walk_all(tables);
}
