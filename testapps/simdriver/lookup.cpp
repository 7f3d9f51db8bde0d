// cuGetProcAddress: the documented look-up by base name, CUDA version and flags, over every function of the header.
//
// The table's rows are checked at compile time: a row whose symbol has not the type that cudaTypedefs.h gives that version of the
// function does not compile.
#include "lookup.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "entry.hpp"
#include "settings.hpp"

#include <cudaTypedefs.h>

// cudaProfiler.h's functions, which the runtime looks up as well. The header itself is not among those that are installed.
typedef enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;
#pragma GCC visibility push(default)
extern "C" {
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile, CUoutput_mode outputMode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
}
#pragma GCC visibility pop

namespace lgsim {
namespace {

enum class Form { plain, per_thread };

CUresult interop_call() { return CUDA_ERROR_NOT_SUPPORTED; }

struct Row {
  const char *base;
  int version;
  Form form;
  const char *symbol;  // null when it is not exported
  void *pointer;
};

#define SYMBOL(base, version, form, suffix, symbol) \
  static_assert(std::is_same_v<PFN_##base##_v##version##suffix, decltype(&symbol)>, #symbol);
#include "symbols.inc"
#undef SYMBOL

#define SYMBOL(base, version, form, suffix, symbol) {#base, version, Form::form, #symbol, reinterpret_cast<void *>(&symbol)},
const Row kRows[] = {
#include "symbols.inc"
    SYMBOL(cuProfilerInitialize, 4000, plain, , cuProfilerInitialize) SYMBOL(cuProfilerStart, 4000, plain, , cuProfilerStart)
        SYMBOL(cuProfilerStop, 4000, plain, , cuProfilerStop)};
#undef SYMBOL

// Found, as in any driver, but not exported, since no header here declares them.
#define INTEROP(base, version, form) {#base, version, Form::form, nullptr, reinterpret_cast<void *>(&interop_call)},
const Row kInterop[] = {
#include "interop.inc"
};
#undef INTEROP

struct Lookup {
  std::unordered_map<std::string, std::vector<const Row *>> by_base;  // versions ascending, as in the table
  std::unordered_map<std::string, const Row *> by_symbol;
};

const Lookup &lookup() {
  static const Lookup *const built = [] {
    auto *l = new Lookup;
    for (const Row &row : kRows) {
      l->by_base[row.base].push_back(&row);
      l->by_symbol[row.symbol] = &row;
    }
    for (const Row &row : kInterop) l->by_base[row.base].push_back(&row);
    return l;
  }();
  return *built;
}

CUresult future_call() { return CUDA_SUCCESS; }

// A pointer that is not the exported one and does the same: a jump to it, inside this library as everything a driver gives out is.
void *private_pointer(void *target) {
#if defined(__aarch64__)
  constexpr size_t kPage = 64 << 10;
#else
  constexpr size_t kPage = 4 << 10;
#endif
  constexpr size_t kBytes = 16, kRoom = 64 << 10;
  alignas(kPage) static unsigned char room[kRoom];
  static std::mutex *const mutex = new std::mutex;
  static auto *const made = new std::unordered_map<void *, void *>;
  static unsigned char *at = nullptr;
  std::lock_guard<std::mutex> hold(*mutex);
  void *&jump = (*made)[target];
  if (jump) return jump;
  if (!at && mprotect(room, kRoom, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return target;
  if (!at) at = room;
  if (at == room + kRoom) return target;
#if defined(__x86_64__)
  const unsigned char move_to_rax[] = {0x48, 0xb8}, jump_rax[] = {0xff, 0xe0};
  memcpy(at, move_to_rax, 2);
  memcpy(at + 2, &target, sizeof target);
  memcpy(at + 10, jump_rax, 2);
#elif defined(__aarch64__)
  const uint32_t load_x16_from_8_bytes_on = 0x58000050, jump_x16 = 0xd61f0200;
  memcpy(at, &load_x16_from_8_bytes_on, 4);
  memcpy(at + 4, &jump_x16, 4);
  memcpy(at + 8, &target, sizeof target);
  __builtin___clear_cache(reinterpret_cast<char *>(at), reinterpret_cast<char *>(at + kBytes));
#else
#error "write the jump for this architecture"
#endif
  jump = at;
  at += kBytes;
  return jump;
}

void log_question(const char *symbol, int version, cuuint64_t flags) {
  const int fd = settings().lookup_log_fd;
  if (fd < 0) return;
  char line[160];
  const int length = snprintf(line, sizeof line, "%d %llu %s\n", version, static_cast<unsigned long long>(flags), symbol ? symbol : "");
  // One write a line, as in the log of the calls.
  ssize_t written = write(fd, line, static_cast<size_t>(std::min<int>(length, sizeof line - 1)));
  (void)written;
}

CUresult find(const char *symbol, void **pointer, int version, cuuint64_t flags, CUdriverProcAddressQueryResult &status) {
  log_question(symbol, version, flags);
  constexpr cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const Settings &s = settings();
  // Nothing is written when the question itself is wrong.
  if (!symbol || !pointer || (flags & ~known) || version > s.driver_version) return CUDA_ERROR_INVALID_VALUE;
  status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *pointer = nullptr;
  if (s.unknown_symbol && !strcmp(symbol, "cuLgFutureCall")) {
    *pointer = reinterpret_cast<void *>(&future_call);
    status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  auto it = lookup().by_base.find(symbol);
  if (it == lookup().by_base.end()) return CUDA_SUCCESS;
  const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  bool has_per_thread = false;
  for (const Row *row : it->second) has_per_thread = has_per_thread || row->form == Form::per_thread;
  const Form wanted = per_thread && has_per_thread ? Form::per_thread : Form::plain;
  bool exists = false;
  const Row *newest = nullptr;
  for (const Row *row : it->second) {
    if (row->version > s.driver_version) continue;  // the driver that is played does not have it
    exists = true;
    if (row->form == wanted && row->version <= version && (!newest || newest->version < row->version)) newest = row;
  }
  if (!exists) return CUDA_SUCCESS;
  status = newest ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  if (newest) *pointer = s.private_pointers ? private_pointer(newest->pointer) : newest->pointer;
  return CUDA_SUCCESS;
}

}  // namespace

int introduced_in(const char *symbol) {
  auto it = lookup().by_symbol.find(symbol);
  return it == lookup().by_symbol.end() ? 0 : it->second->version;
}

const char *base_name(const char *symbol) {
  auto it = lookup().by_symbol.find(symbol);
  return it == lookup().by_symbol.end() ? symbol : it->second->base;
}

}  // namespace lgsim

using namespace lgsim;

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
  ENTER_BEFORE_INIT();
  if (!pfn) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult status;
  void *found = nullptr;
  CUresult r = find(symbol, &found, cudaVersion, flags, status);
  if (r == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS) return CUDA_ERROR_NOT_FOUND;
  if (r == CUDA_SUCCESS) *pfn = found;
  return r;
}
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus) {
  ENTER_BEFORE_INIT();
  CUdriverProcAddressQueryResult status;
  CUresult r = find(symbol, pfn, cudaVersion, flags, status);
  if (r == CUDA_SUCCESS && symbolStatus) *symbolStatus = status;
  return r;
}

CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode) {
  ENTER();
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuProfilerStart(void) {
  ENTER();
  return CUDA_SUCCESS;
}
CUresult cuProfilerStop(void) {
  ENTER();
  return CUDA_SUCCESS;
}
