// gpu-core-dumps.txt: "what a process does | what comes of it". Each row is played in a child, before this process has a driver.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "conformance.hpp"
#include "image.hpp"

namespace conformance {

namespace {

constexpr unsigned kSkipAll = CU_COREDUMP_LIGHTWEIGHT_FLAGS;

struct Played {
  std::string folder, pipe, file;
  int out;  // where the answer goes

  void answer(const std::string &text) const {
    ssize_t written = write(out, text.data(), text.size());
    (void)written;
  }
  static int set(CUcoredumpSettings which, void *value, size_t bytes) { return cuCoredumpSetAttributeGlobal(which, value, &bytes); }
  static int set(CUcoredumpSettings which, std::string text) { return set(which, text.data(), text.size() + 1); }
  static int set(CUcoredumpSettings which, bool value) { return set(which, &value, sizeof value); }
  static int set_flags(unsigned flags) { return set(CU_COREDUMP_GENERATION_FLAGS, &flags, sizeof flags); }
  static int get_switch(CUcoredumpSettings which) {
    bool value = false;
    size_t bytes = sizeof value;
    return cuCoredumpGetAttributeGlobal(which, &value, &bytes) == CUDA_SUCCESS ? value : -1;
  }
  static std::string get_text(CUcoredumpSettings which) {
    char text[1024] = "";
    size_t bytes = sizeof text;
    return cuCoredumpGetAttributeGlobal(which, text, &bytes) == CUDA_SUCCESS ? text : "?";
  }
  std::string attributes(unsigned flags = kSkipAll | CU_COREDUMP_SKIP_ABORT) const {
    const int results[] = {set(CU_COREDUMP_PIPE, pipe), set(CU_COREDUMP_FILE, file), set_flags(flags), set(CU_COREDUMP_ENABLE_USER_TRIGGER, true)};
    std::string text;
    for (int result : results) text += (text.empty() ? "" : " ") + std::to_string(result);
    return text;
  }
  static bool is_there(const std::string &path) {
    struct stat about;
    return stat(path.c_str(), &about) == 0;
  }
  // A kernel that spins until the context ends, in a stream of its own.
  static std::pair<CUfunction, CUstream> spinning() {
    const auto code = lg::image("probes");
    CUmodule module;
    CUfunction spin;
    CUstream stream;
    CK(cuModuleLoadData(&module, code.data()));
    CK(cuModuleGetFunction(&spin, module, "spin"));
    CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CK(lg::launch_one(spin, stream, lg::mapped_word().device));
    // Until it runs: no state of a stream says so.
    usleep(100000);
    return {spin, stream};
  }
  // A kernel spins, and one byte goes into the pipe. Returns once the pipe is gone, or after a time.
  void dump() const {
    spinning();
    ask();
  }
  void ask() const {
    const int fd = open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
    if (fd < 0 || write(fd, "x", 1) != 1) return answer("nothing listens at the pipe");
    close(fd);
    for (int i = 0; i < 1000 && is_there(pipe); i++) usleep(10000);
  }
  // What a synchronize over a kernel answers that reads a bad address.
  int fault() const {
    lg::open_session();
    const auto code = lg::image("faulting");
    CUmodule module;
    CUfunction reads;
    CUdeviceptr word;
    CK(cuModuleLoadData(&module, code.data()));
    CK(cuModuleGetFunction(&reads, module, "reads_bad_address"));
    CK(cuMemAlloc(&word, sizeof(int)));
    CK(lg::launch_one(reads, nullptr, word));
    return cuCtxSynchronize();
  }
};

using Play = void (*)(const Played &);

void begin(const Played &p) {
  CK(cuInit(0));
  p.attributes();
}

const std::pair<const char *, Play> kPlays[] = {
    {"attributes before cuInit",
     [](const Played &p) {
       p.attributes();
       p.answer("nothing");
     }},
    {"attributes between cuInit and the first context",
     [](const Played &p) {
       CK(cuInit(0));
       const std::string results = p.attributes();
       const bool early = Played::is_there(p.pipe);
       lg::open_session();
       p.answer(results + (!early && Played::is_there(p.pipe) ? ", the pipe comes with the context" : ", no pipe"));
     }},
    {"attributes after the first context",
     [](const Played &p) {
       lg::open_session();
       const std::string results = p.attributes();
       usleep(100000);
       p.answer(results + (Played::is_there(p.pipe) ? ", a pipe" : ", no pipe"));
     }},
    {"sizes asked for: switch, text, flags",
     [](const Played &p) {
       CK(cuInit(0));
       std::string text;
       for (CUcoredumpSettings which : {CU_COREDUMP_ENABLE_USER_TRIGGER, CU_COREDUMP_PIPE, CU_COREDUMP_GENERATION_FLAGS}) {
         size_t bytes = 0;
         CK(cuCoredumpGetAttributeGlobal(which, nullptr, &bytes));
         text += (text.empty() ? "" : " ") + std::to_string(bytes);
       }
       p.answer(text);
     }},
    {"a size that is not the attribute's",
     [](const Played &p) {
       CK(cuInit(0));
       char value[1024];
       size_t bytes = sizeof value;
       p.answer(std::to_string(cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, value, &bytes)));
     }},
    {"the pipe again, once the trigger is set",
     [](const Played &p) {
       begin(p);
       p.answer(std::to_string(Played::set(CU_COREDUMP_PIPE, p.pipe + "2")));
     }},
    {"the file again, once the trigger is set",
     [](const Played &p) {
       begin(p);
       p.answer(std::to_string(Played::set(CU_COREDUMP_FILE, p.file + "2")));
     }},
    {"the trigger sets dumps at exceptions",
     [](const Played &p) {
       CK(cuInit(0));
       const int before = Played::get_switch(CU_COREDUMP_ENABLE_ON_EXCEPTION);
       p.attributes();
       p.answer(std::to_string(before) + " then " + std::to_string(Played::get_switch(CU_COREDUMP_ENABLE_ON_EXCEPTION)));
     }},
    {"the flags set the older switches",
     [](const Played &p) {
       begin(p);
       p.answer("host " + std::to_string(Played::get_switch(CU_COREDUMP_TRIGGER_HOST)) + " lightweight " +
                std::to_string(Played::get_switch(CU_COREDUMP_LIGHTWEIGHT)));
     }},
    {"variables beside attributes",
     [](const Played &p) {
       setenv("CUDA_COREDUMP_FILE", (p.file + ".own").c_str(), 1);
       begin(p);
       p.answer(Played::get_text(CU_COREDUMP_FILE) == p.file + ".own" ? "the file is the variable's" : "the file is another one");
     }},
    {"fields in a variable",
     [](const Played &p) {
       char host[256] = "";
       gethostname(host, sizeof host - 1);
       setenv("CUDA_COREDUMP_PIPE", (p.folder + "/%p.%h").c_str(), 1);
       CK(cuInit(0));
       const bool filled_in = Played::get_text(CU_COREDUMP_PIPE) == p.folder + "/" + std::to_string(getpid()) + "." + host;
       p.answer(filled_in ? "filled in" : Played::get_text(CU_COREDUMP_PIPE));
     }},
    {"a byte in the pipe under a kernel that spins",
     [](const Played &p) {
       begin(p);
       lg::open_session();
       p.dump();
       struct stat core = {};
       stat(p.file.c_str(), &core);
       p.answer(std::string(core.st_size > 1000 ? "a core" : "no core") + (Played::is_there(p.pipe) ? ", a pipe" : ", no pipe"));
       p.answer(", blocked call " + std::to_string(cuCtxSynchronize()) + ", query " + std::to_string(cuStreamQuery(nullptr)));
       exit(9);
     }},
    {"the same, while a launch waits in a full queue",
     [](const Played &p) {
       begin(p);
       const lg::Session session = lg::open_session();
       const auto [spin, stream] = Played::spinning();
       std::atomic<unsigned> returned = 0;
       std::vector<int> results(10000, -1);
       const CUdeviceptr word = lg::mapped_word().device;
       std::thread launches([&, spin = spin, stream = stream] {
         CK(cuCtxSetCurrent(session.context));
         for (int &result : results) {
           result = lg::launch_one(spin, stream, word);
           returned++;
           if (result != CUDA_SUCCESS) break;
         }
       });
       // Full is a queue in which no launch has returned for a second.
       for (unsigned seen = 0, still = 0; still < 20; usleep(50000)) {
         still = returned == seen && seen > 0 ? still + 1 : 0;
         seen = returned;
       }
       const unsigned waits = returned;
       p.ask();
       launches.join();
       p.answer("the launch " + std::to_string(results[waits]) + ", the next one " + std::to_string(results[waits + 1]) + ", query " +
                std::to_string(cuStreamQuery(stream)) + ", synchronize " + std::to_string(cuCtxSynchronize()));
     }},
    {"the same without skip_abort",
     [](const Played &p) {
       CK(cuInit(0));
       p.attributes(kSkipAll);
       lg::open_session();
       p.dump();
       cuCtxSynchronize();
       usleep(2000000);
     }},
    {"a file that is there",
     [](const Played &p) {
       close(open(p.file.c_str(), O_WRONLY | O_CREAT, 0600));
       begin(p);
       lg::open_session();
       p.dump();
       struct stat core = {};
       stat(p.file.c_str(), &core);
       p.answer(core.st_size > 1000 && (core.st_mode & 0777) == 0600 ? "keeps its mode" : "has another mode, or nothing in it");
     }},
    {"dumps at exceptions disabled after the trigger",
     [](const Played &p) {
       begin(p);
       Played::set(CU_COREDUMP_ENABLE_ON_EXCEPTION, false);
       const int trigger = Played::get_switch(CU_COREDUMP_ENABLE_USER_TRIGGER);
       lg::open_session();
       p.answer("trigger " + std::to_string(trigger) + (Played::is_there(p.pipe) ? ", a pipe" : ", no pipe"));
     }},
    {"a kernel that reads a bad address",
     [](const Played &p) {
       CK(cuInit(0));
       p.answer("synchronize " + std::to_string(p.fault()));
     }},
    {"the same, with the attributes",
     [](const Played &p) {
       begin(p);
       const int answered = p.fault();
       p.answer("synchronize " + std::to_string(answered) + (Played::is_there(p.file) ? ", a core" : ", no core"));
       usleep(1500000);
       p.answer(std::string(Played::is_there(p.pipe) ? ", a pipe" : ", no pipe") + ", then synchronize " + std::to_string(cuCtxSynchronize()) +
                ", query " + std::to_string(cuStreamQuery(nullptr)));
     }},
    {"release of the context after a dump",
     [](const Played &p) {
       begin(p);
       const lg::Session session = lg::open_session();
       p.dump();
       alarm(2);
       const int result = cuDevicePrimaryCtxRelease(session.device);
       p.answer("returns " + std::to_string(result));
     }},
    {"release of the context without a dump",
     [](const Played &p) {
       begin(p);
       const lg::Session session = lg::open_session();
       CK(cuDevicePrimaryCtxRelease(session.device));
       p.answer(Played::is_there(p.pipe) ? "the pipe stays" : "the pipe goes");
     }},
};

std::string play(Play does, const std::string &folder) {
  int ends[2];
  if (pipe(ends)) return "no pipe can be made";
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    // What the driver says of a dump is no deviation.
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    does({folder, folder + "/pipe", folder + "/core", ends[1]});
    _exit(0);
  }
  close(ends[1]);
  std::string answer;
  char part[256];
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) answer.append(part, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status) && answer.empty()) {
    if (WTERMSIG(status) == SIGALRM) return "does not return";
    return WTERMSIG(status) == SIGABRT ? "signal 6" : "the process dies";
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 9) answer += ", the process ends as it wants";
  return answer;
}

}  // namespace

void walk_gpu_core_dumps(const std::string &path) {
  Tally tally("gpu-core-dumps.txt");
  for (const std::string &line : lines_of(path)) {
    const std::vector<std::string> parts = split(line, '|');
    Play found = nullptr;
    for (const auto &[what, does] : kPlays)
      if (trimmed(parts[0]) == what) found = does;
    if (!found || parts.size() != 2) {
      tally.unknown(line);
      continue;
    }
    char folder[] = "/tmp/lazyguard-conformance-XXXXXX";
    if (!mkdtemp(folder)) {
      tally.cell(parts[0], "a folder for temporary files", strerror(errno));
      continue;
    }
    tally.cell(trimmed(parts[0]), trimmed(parts[1]), play(found, folder));
    for (const char *name : {"/pipe", "/core", "/core.own", "/core2", "/pipe2"}) unlink((std::string(folder) + name).c_str());
    rmdir(folder);
  }
}

}  // namespace conformance
