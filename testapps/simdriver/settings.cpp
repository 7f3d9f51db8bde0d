#include "settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lookup.hpp"

extern char **environ;

namespace lgsim {
namespace {

void complain(const std::string &what) {
  std::string line = "simulated driver: " + what + "\n";
  ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  (void)written;
}

bool parse_flag(const char *name, const char *value) {
  if (!strcmp(value, "1")) return true;
  if (strcmp(value, "0") && *value) complain(std::string(name) + "=" + value + " is neither 0 nor 1; taken as 0");
  return false;
}

bool parse_integer(const std::string &text, int &value) {
  char *end = nullptr;
  long parsed = strtol(text.c_str(), &end, 10);
  if (text.empty() || *end) return false;
  value = static_cast<int>(parsed);
  return true;
}

// Calls f(symbol, what follows the equals sign or nothing) for each item of a comma-separated list.
template <class F> void each_item(const char *value, F f) {
  std::string list = value;
  size_t at = 0;
  while (at < list.size()) {
    size_t comma = list.find(',', at);
    if (comma == std::string::npos) comma = list.size();
    std::string item = list.substr(at, comma - at);
    size_t equals = item.find('=');
    if (!item.empty())
      f(item.substr(0, equals), equals == std::string::npos ? std::string() : item.substr(equals + 1));
    at = comma + 1;
  }
}

// -1 where there is none.
int open_log(const std::string &name, const char *value) {
  if (!*value) return -1;
  const int fd = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) complain(name + ": cannot open " + value + ": " + strerror(errno));
  return fd;
}

void read_one(Settings &s, const std::string &name, const char *value) {
  if (name == "LGSIM_DRIVER_VERSION") {
    int version = 0;
    if (parse_integer(value, version) && version >= 11070)
      s.driver_version = version;
    else
      complain(name + "=" + value + " is not a version from 11070 on; 13000 is played");
  } else if (name == "LGSIM_FAIL") {
    each_item(value, [&](const std::string &symbol, const std::string &result) {
      int code = 0;
      if (parse_integer(result, code))
        s.fail[symbol] = code;
      else
        complain(name + ": " + symbol + "=" + result + " names no integer to answer; ignored");
    });
  } else if (name == "LGSIM_NEVER_RETURN") {
    each_item(value, [&](const std::string &symbol, const std::string &) {
      s.never_return.emplace(symbol, static_cast<int>(s.never_return.size()));
    });
  } else if (name == "LGSIM_NEVER_RETURN_BY_THREAD") {
    s.never_return_by_thread = parse_flag(name.c_str(), value);
  } else if (name == "LGSIM_DELAY") {
    each_item(value, [&](const std::string &symbol, const std::string &delay) {
      int ms = 0;
      if (parse_integer(delay, ms) && ms >= 0)
        s.delay_ms[symbol] = static_cast<unsigned>(ms);
      else
        complain(name + ": " + symbol + "=" + delay + " names no number of milliseconds; ignored");
    });
  } else if (name == "LGSIM_COMPUTES") {
    each_item(value, [&](const std::string &symbol, const std::string &rest) {
      if (rest.empty())
        s.computes.insert(symbol);
      else
        complain(name + ": " + symbol + " takes no value; ignored");
    });
  } else if (name == "LGSIM_CALL_LOG") {
    s.call_log_fd = open_log(name, value);
  } else if (name == "LGSIM_LOOKUP_LOG") {
    s.lookup_log_fd = open_log(name, value);
  } else if (name == "LGSIM_FREE_RUNNING") {
    s.free_running = parse_flag(name.c_str(), value);
  } else if (name == "LGSIM_PRIVATE_POINTERS") {
    s.private_pointers = parse_flag(name.c_str(), value);
  } else if (name == "LGSIM_UNKNOWN_SYMBOL") {
    s.unknown_symbol = parse_flag(name.c_str(), value);
  } else if (name == "LGSIM_LOSE_DUMP_REQUESTS") {
    s.loses_dump_requests = parse_flag(name.c_str(), value);
  } else if (name == "LGSIM_FULL_CORE") {
    s.full_core = value;
  } else {
    complain(name + " is no setting of the simulated driver; ignored");
  }
}

Settings *read_environment() {
  auto *s = new Settings;
  for (char **entry = environ; entry && *entry; entry++) {
    const char *equals = strchr(*entry, '=');
    if (equals && !strncmp(*entry, "LGSIM_", 6)) read_one(*s, std::string(*entry, static_cast<size_t>(equals - *entry)), equals + 1);
  }
  return s;
}

}  // namespace

const Settings &settings() {
  // Never destroyed: kernels still run on other threads while the process exits.
  static const Settings *const read = read_environment();
  return *read;
}

void check_symbol_names() {
  auto check = [](const char *setting, const std::string &symbol) {
    if (!introduced_in(symbol.c_str())) complain(std::string(setting) + ": no exported function is named " + symbol);
  };
  for (const auto &[symbol, code] : settings().fail) check("LGSIM_FAIL", symbol);
  for (const auto &[symbol, number] : settings().never_return) check("LGSIM_NEVER_RETURN", symbol);
  for (const auto &[symbol, ms] : settings().delay_ms) check("LGSIM_DELAY", symbol);
  for (const auto &symbol : settings().computes) check("LGSIM_COMPUTES", symbol);
}

}  // namespace lgsim
