// What the environment asks of the simulated driver. Read once, when the library is loaded, and constant from then on, so that
// no call reads the environment. CUDA_MODULE_LOADING alone is read by cuInit, as the real driver does.
//
// Must not print unless a setting is wrong: tests compare what programs print.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace lgsim {

struct Settings {
  int driver_version = 13000;
  std::unordered_map<std::string, int> fail;           // symbol -> the integer it answers
  std::unordered_map<std::string, int> never_return;   // symbol -> its number in the list
  std::unordered_map<std::string, unsigned> delay_ms;  // symbol -> milliseconds
  std::unordered_set<std::string> computes;            // symbols
  int call_log_fd = -1;
  int lookup_log_fd = -1;
  bool free_running = false;
  bool private_pointers = false;
  bool unknown_symbol = false;
  bool loses_dump_requests = false;
  std::string full_core;  // a file, or empty
  bool never_return_by_thread = false;

  // True when no call needs more than its own body: the entry guard then costs one load and one branch.
  bool plain() const {
    return fail.empty() && never_return.empty() && delay_ms.empty() && call_log_fd < 0 && driver_version >= 13000;
  }
};

const Settings &settings();

// Says on stderr, in one line each, which function names in the settings no export has.
void check_symbol_names();

}  // namespace lgsim
