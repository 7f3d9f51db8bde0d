// What the walks share: the tally, the driver session, and how "blocked" and "runs" are distinguished.
//
// An expectation decides how long is waited. What should return, or run, gets seconds before it counts as blocked, so that a
// busy machine does not fail it; what should block, or stall, is believed after a short while.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "session.hpp"

namespace conformance {

class Tally {
 public:
  explicit Tally(std::string table) : table_(std::move(table)) {}
  // One cell of a table.
  void cell(const std::string &what, const std::string &expected, const std::string &seen);
  // A row that no walk knows is a failure: a table must not grow without being played.
  void unknown(const std::string &row);
  static int finish();
  // What was counted in this process goes to another one, which adds it to its own; false where that could not be done, or nobody tells any more.
  static bool tell(int to);
  static bool add(int from);

 private:
  const std::string table_;
};

struct Device {
  lg::Session session;
  bool simulated = false;
  std::vector<char> image;  // the probe kernels, as this driver takes them
  lg::MappedWord flag;      // releases what is in flight
  CUdeviceptr buffer = 0;   // 64 MB
  std::string primary_ids;  // of the primary context, each time that it came
};
Device &device();

// PTX that any driver can compile, the simulated one included.
extern const char kPtx[];

enum class Expect { returns, blocks };

struct Outcome {
  bool blocked = false;
  CUresult result = CUDA_SUCCESS;
};

// Makes the call on a thread of its own while something is in flight. `release` gets whether the call blocks, ends what is in
// flight, and is called before the thread is joined; a call that does not return even then ends the program.
Outcome call_beside(const std::string &name, Expect expect, const std::function<CUresult()> &call,
                    const std::function<void(bool blocked)> &release);

// True once the stream has run dry; waits long for what is expected, briefly for what is not.
bool runs_dry(CUstream stream, bool expected);

inline const char *word(bool blocked) { return blocked ? "blocks" : "returns"; }

std::vector<std::string> lines_of(const std::string &path);
std::vector<std::string> split(const std::string &line, char separator);
bool begins(const std::string &text, const std::string &with);
std::string trimmed(const std::string &text);

void walk_blocking_matrix(const std::string &path);
void walk_stall_after_cold_load(const std::string &path);
void walk_calls_during_a_blocked_call(const std::string &path);
void walk_calls_during_further_blocked_calls(const std::string &path);
void walk_further_answers(const std::string &path);
void walk_context_question_and_capture(const std::string &path);
void walk_lookups(const std::string &path);
// Forks: before this process has a driver.
void walk_gpu_core_dumps(const std::string &path);

}  // namespace conformance
