#include "coredump.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "context.hpp"
#include "entry.hpp"
#include "gpu_core.hpp"
#include "loading.hpp"
#include "settings.hpp"

using namespace lgsim;

namespace {

struct Attributes {
  std::mutex mutex;
  bool context_is_there = false;
  bool dumps_at_exceptions = false;  // as the first context has found it
  std::set<int> fixed;  // by the environment
  std::map<int, bool> switches{{CU_COREDUMP_ENABLE_ON_EXCEPTION, false},
                               {CU_COREDUMP_TRIGGER_HOST, true},
                               {CU_COREDUMP_LIGHTWEIGHT, false},
                               {CU_COREDUMP_ENABLE_USER_TRIGGER, false}};
  std::map<int, std::string> texts;
  unsigned flags = CU_COREDUMP_DEFAULT_FLAGS;
};
Attributes &attributes() {
  static Attributes *const a = new Attributes;
  return *a;
}

constexpr size_t kMostText = 1024;  // with the byte that ends it

std::string filled_in(const std::string &text) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::string result;
  for (size_t i = 0; i < text.size(); i++) {
    const char field = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : 0;
    if (field == 'h')
      result += host;
    else if (field == 'p')
      result += std::to_string(getpid());
    else if (field == 't')
      result += std::to_string(time(nullptr));
    else
      result += text[i];
    if (field && strchr("hpt", field)) i++;
  }
  return result;
}

unsigned flags_in(const std::string &list) {
  const std::pair<const char *, unsigned> known[] = {{"skip_nonrelocated_elf_images", CU_COREDUMP_SKIP_NONRELOCATED_ELF_IMAGES},
                                                     {"skip_global_memory", CU_COREDUMP_SKIP_GLOBAL_MEMORY},
                                                     {"skip_shared_memory", CU_COREDUMP_SKIP_SHARED_MEMORY},
                                                     {"skip_local_memory", CU_COREDUMP_SKIP_LOCAL_MEMORY},
                                                     {"skip_constbank_memory", CU_COREDUMP_SKIP_CONSTBANK_MEMORY},
                                                     {"skip_abort", CU_COREDUMP_SKIP_ABORT}};
  unsigned flags = 0;
  for (const auto &[name, flag] : known)
    if (("," + list + ",").find("," + std::string(name) + ",") != std::string::npos) flags |= flag;
  return flags;
}

// What a device shows of a kernel that never ends: every lane in a loop of one instruction. A kernel that faults stands there as well, with
// its exception.
std::string core_of(const std::vector<Running> &run, const std::vector<Running> &wait) {
  constexpr uint64_t kCode = 0x7f5a10000000, kEntry = 0x100, kLoop = 0x10;
  gpu_core::Core core;
  core.timestamp = static_cast<uint32_t>(time(nullptr));
  core.devices.emplace_back();
  gpu_core::Device &device = core.devices[0];
  device.multiprocessors = kMultiprocessors;
  std::vector<gpu_core::Function> functions;
  std::map<const Function *, uint64_t> entries;
  auto entry_of = [&](const Function *function) {
    const auto [entry, is_new] = entries.emplace(function, kCode + functions.size() * kEntry);
    if (is_new) {
      gpu_core::Function code;
      code.name = function->kernel.name;
      code.address = entry->second;
      code.code = {gpu_core::kNop, gpu_core::kBranchToItself, gpu_core::kExit};
      functions.push_back(std::move(code));
    }
    return entry->second;
  };
  constexpr uint64_t kContext = 0x5500, kModule = 0x9900;
  auto add = [&](const Running &kernel, uint32_t status) {
    gpu_core::Grid grid;
    grid.id = device.grids.size() + 1;
    grid.context = kContext;
    grid.entry = entry_of(kernel.function);
    grid.function = reinterpret_cast<uintptr_t>(kernel.function);
    grid.module = kModule;
    grid.grid = {kernel.grid.grid.x, kernel.grid.grid.y, kernel.grid.grid.z};
    grid.block = {kernel.grid.block.x, kernel.grid.block.y, kernel.grid.block.z};
    grid.status = status;
    device.grids.push_back(grid);
  };
  constexpr uint32_t kPending = 1, kActive = 2, kIllegalAddress = 14;
  uint32_t next = 0;
  for (const Running &kernel : run) {
    add(kernel, kActive);
    const gpu_core::Grid &grid = device.grids.back();
    const uint64_t threads = static_cast<uint64_t>(grid.block.x) * grid.block.y * grid.block.z;
    const uint64_t warps = (threads + 31) / 32;
    for (uint64_t block = 0; block < kernel.threads_taken / std::max<uint64_t>(warps * 32, 64); block++) {
      const gpu_core::Three at{static_cast<uint32_t>(block % grid.grid.x), static_cast<uint32_t>(block / grid.grid.x % grid.grid.y),
                               static_cast<uint32_t>(block / grid.grid.x / grid.grid.y)};
      const uint32_t id = next++ % kMultiprocessors;
      if (id == device.busy.size()) device.busy.push_back({id, 0, 0, {}});
      device.busy[id].blocks.push_back(gpu_core::filled_block(grid, at, grid.entry + kLoop));
      if (!kernel.function->kernel.attributes.faults) continue;
      device.busy[id].exception = kIllegalAddress;
      for (gpu_core::Warp &warp : device.busy[id].blocks.back().warps)
        for (gpu_core::Lane &lane : warp.lanes) lane.exception = kIllegalAddress;
    }
  }
  for (const Running &kernel : wait) add(kernel, kPending);
  device.contexts = {{kContext, static_cast<uint32_t>(getpid()), {{kModule, gpu_core::cubin(functions)}}}};
  return gpu_core::write(core);
}

void write_whole(int fd, const char *data, size_t bytes) {
  while (bytes) {
    const ssize_t written = write(fd, data, bytes);
    if (written <= 0) return;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
}

// Writes the file, then removes the pipe.
void dump() {
  static const char said[] = "Starting GPU coredump generation, set the CUDA_COREDUMP_SHOW_PROGRESS environment variable to 1 to enable more detailed output\n";
  write_whole(STDERR_FILENO, said, sizeof said - 1);
  std::string file, pipe;
  unsigned flags;
  {
    std::lock_guard<std::mutex> hold(attributes().mutex);
    file = attributes().texts[CU_COREDUMP_FILE];
    pipe = attributes().texts[CU_COREDUMP_PIPE];
    flags = attributes().flags;
  }
  std::string core;
  if (const std::string &full = settings().full_core; !full.empty() && !(flags & CU_COREDUMP_SKIP_SHARED_MEMORY)) {
    std::ifstream whole(full, std::ios::binary);
    core.assign(std::istreambuf_iterator<char>(whole), {});
  }
  if (core.empty())
    look_at_kernels([&](const std::vector<Running> &run, const std::vector<Running> &wait) { core = core_of(run, wait); });
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0) {
    write_whole(fd, core.data(), core.size());
    close(fd);
  }
  unlink(pipe.c_str());
  if (!(flags & CU_COREDUMP_SKIP_ABORT)) abort();
}

// A thread of the driver's own: the program's signal handlers run on the program's threads, and the guard does not take it for one of these.
bool start_thread(void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run, argument) == 0;
  if (started) {
    pthread_setname_np(thread, "cuda-EvtHandlr");
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

// Measured: 0 to 700 ms after the file was complete.
void *lose_work_later(void *error) {
  usleep(300000);
  lose_all_work(static_cast<CUresult>(reinterpret_cast<intptr_t>(error)));
  return nullptr;
}

void *listen(void *argument) {
  const std::string pipe = *static_cast<std::string *>(argument);
  // Also for writing, so that it never ends.
  const int fd = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  pollfd wait{fd, POLLIN, 0};
  while (fd >= 0 && poll(&wait, 1, -1) < 0 && errno == EINTR) {
  }
  char byte;
  if (fd >= 0 && read(fd, &byte, 1) == 1) {
    // The pipe stays, and keeps its reader.
    if (settings().loses_dump_requests) return nullptr;
    dump();
    lose_all_work(CUDA_ERROR_LAUNCH_FAILED);
  }
  return nullptr;
}

// What one attribute makes of others.
void follow(Attributes &a, int which) {
  auto make = [&](int other, bool value) {
    if (!a.fixed.count(other)) a.switches[other] = value;
  };
  if (which == CU_COREDUMP_ENABLE_USER_TRIGGER && a.switches[which]) make(CU_COREDUMP_ENABLE_ON_EXCEPTION, true);
  if (which == CU_COREDUMP_GENERATION_FLAGS) {
    make(CU_COREDUMP_TRIGGER_HOST, !(a.flags & CU_COREDUMP_SKIP_ABORT));
    make(CU_COREDUMP_LIGHTWEIGHT, (a.flags & CU_COREDUMP_LIGHTWEIGHT_FLAGS) == CU_COREDUMP_LIGHTWEIGHT_FLAGS);
  }
}

CUresult set(CUcoredumpSettings which, void *value, size_t *size, bool global) {
  Attributes &a = attributes();
  std::lock_guard<std::mutex> hold(a.mutex);
  if (!size || which < CU_COREDUMP_ENABLE_ON_EXCEPTION || which >= CU_COREDUMP_MAX) return CUDA_ERROR_INVALID_VALUE;
  const bool is_text = which == CU_COREDUMP_FILE || which == CU_COREDUMP_PIPE, is_switch = a.switches.count(which) != 0;
  if (!value) {
    *size = is_text ? kMostText : is_switch ? sizeof(bool) : sizeof(int);
    return CUDA_SUCCESS;
  }
  if (is_text ? *size == 0 || *size > kMostText : *size != (is_switch ? sizeof(bool) : sizeof(int))) return CUDA_ERROR_INVALID_VALUE;
  if (!global && (which == CU_COREDUMP_PIPE || which == CU_COREDUMP_ENABLE_USER_TRIGGER)) return CUDA_ERROR_NOT_PERMITTED;
  // Too late, or the environment's to say: it answers as if it had done something.
  if (a.fixed.count(which) || (global && a.context_is_there)) return CUDA_SUCCESS;
  if (which == CU_COREDUMP_PIPE && a.switches[CU_COREDUMP_ENABLE_USER_TRIGGER]) return CUDA_ERROR_NOT_SUPPORTED;
  if (is_text)
    a.texts[which] = filled_in(std::string(static_cast<const char *>(value), strnlen(static_cast<const char *>(value), *size)));
  else if (is_switch)
    a.switches[which] = *static_cast<const bool *>(value);
  else
    a.flags = *static_cast<const unsigned *>(value);
  follow(a, which);
  return CUDA_SUCCESS;
}

CUresult get(CUcoredumpSettings which, void *value, size_t *size) {
  Attributes &a = attributes();
  std::lock_guard<std::mutex> hold(a.mutex);
  if (!size || which < CU_COREDUMP_ENABLE_ON_EXCEPTION || which >= CU_COREDUMP_MAX) return CUDA_ERROR_INVALID_VALUE;
  const bool is_text = which == CU_COREDUMP_FILE || which == CU_COREDUMP_PIPE, is_switch = a.switches.count(which) != 0;
  const size_t bytes = is_text ? kMostText : is_switch ? sizeof(bool) : sizeof(int);
  if (!value) {
    *size = bytes;
    return CUDA_SUCCESS;
  }
  if (*size != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (is_text)
    strncpy(static_cast<char *>(value), a.texts[which].c_str(), bytes);
  else if (is_switch)
    *static_cast<bool *>(value) = a.switches[which];
  else
    *static_cast<unsigned *>(value) = a.flags;
  return CUDA_SUCCESS;
}

}  // namespace

namespace lgsim {

void read_coredump_variables() {
  Attributes &a = attributes();
  std::lock_guard<std::mutex> hold(a.mutex);
  a.texts = {{CU_COREDUMP_FILE, filled_in("core.cuda.%h.%p")}, {CU_COREDUMP_PIPE, filled_in("corepipe.cuda.%h.%p")}};
  const std::pair<const char *, int> variables[] = {{"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", CU_COREDUMP_ENABLE_ON_EXCEPTION},
                                                    {"CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", CU_COREDUMP_TRIGGER_HOST},
                                                    {"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", CU_COREDUMP_LIGHTWEIGHT},
                                                    {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP", CU_COREDUMP_ENABLE_USER_TRIGGER},
                                                    {"CUDA_COREDUMP_FILE", CU_COREDUMP_FILE},
                                                    {"CUDA_COREDUMP_PIPE", CU_COREDUMP_PIPE},
                                                    {"CUDA_COREDUMP_GENERATION_FLAGS", CU_COREDUMP_GENERATION_FLAGS}};
  for (const auto &[name, which] : variables) {
    const char *value = getenv(name);
    if (!value) continue;
    a.fixed.insert(which);
    if (a.switches.count(which))
      a.switches[which] = !strcmp(value, "1");
    else if (which == CU_COREDUMP_GENERATION_FLAGS)
      a.flags = flags_in(value);
    else
      a.texts[which] = filled_in(value);
  }
  follow(a, CU_COREDUMP_ENABLE_USER_TRIGGER);
}

void a_context_is_there() {
  Attributes &a = attributes();
  std::lock_guard<std::mutex> hold(a.mutex);
  if (a.context_is_there) return;
  a.context_is_there = true;
  a.dumps_at_exceptions = a.switches[CU_COREDUMP_ENABLE_ON_EXCEPTION];
  if (!a.switches[CU_COREDUMP_ENABLE_USER_TRIGGER] || !a.dumps_at_exceptions) return;
  auto *pipe = new std::string(a.texts[CU_COREDUMP_PIPE]);
  unlink(pipe->c_str());
  if (mkfifo(pipe->c_str(), 0640) != 0) return;
  start_thread(listen, pipe);
}

void raise_exception(CUresult error) {
  bool dumps;
  {
    std::lock_guard<std::mutex> hold(attributes().mutex);
    dumps = attributes().dumps_at_exceptions;
  }
  // The launch has returned by then.
  usleep(20000);
  if (dumps) dump();
  if (!dumps || !start_thread(lose_work_later, reinterpret_cast<void *>(static_cast<intptr_t>(error)))) lose_all_work(error);
}

}  // namespace lgsim

CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
  ENTER_BEFORE_INIT();
  // The real driver's process dies without a word.
  if (!is_initialised()) raise(SIGSEGV);
  return set(attrib, value, size, true);
}
CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
  ENTER();
  return get(attrib, value, size);
}
CUresult cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size) {
  ENTER();
  NEED_CONTEXT(context);
  return set(attrib, value, size, false);
}
CUresult cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size) {
  ENTER();
  NEED_CONTEXT(context);
  return get(attrib, value, size);
}
