// The guard at the entrance of every exported call.
//
// Each export begins with ENTER(), or with ENTER_BEFORE_INIT() where the documentation lets it be called before cuInit. The guard
// logs the call, plays the settings (fail, never return, delay, a driver too old to have the call), answers
// CUDA_ERROR_NOT_INITIALIZED, and refuses what an open capture forbids. The symbol is the function's own name, so that no entry can be
// logged under another's.
//
// One byte says whether there is anything to do: after cuInit, without settings and captures, the guard is a load and a branch.
#pragma once

#include <atomic>

#include "cuda_api.hpp"

namespace lgsim {

struct Call {
  const char *symbol;
  const void *plan;  // what the settings and capture-checks.inc say of this symbol; looked up at its first call
};

// Nonzero while a call needs the slow way in, a bit for each reason.
enum : unsigned char {
  kUnusual = 1,      // not initialised, forked, or settings that concern calls
  kCaptureOpen = 2,  // see capture-checks.inc
  kWorkLost = 4,     // see lose_all_work
};
extern std::atomic<unsigned char> slow_entry;

// True when the call must answer `answer` instead of doing its work.
bool enter_slowly(Call &call, bool needs_init, CUresult &answer);

// Computes for so long, as a compiler does.
void compute_for(unsigned milliseconds);

// cuInit has succeeded: calls may be answered.
void initialised();
bool is_initialised();
// The process was forked after cuInit: nothing of the driver works in the child.
bool is_forked_child();

}  // namespace lgsim

#define LGSIM_ENTER(needs_init)                                                                        \
  do {                                                                                                 \
    if (__builtin_expect(lgsim::slow_entry.load(std::memory_order_relaxed), 0)) {                      \
      static lgsim::Call lgsim_call{__func__, nullptr};                                                \
      CUresult lgsim_answer = CUDA_SUCCESS;                                                            \
      if (lgsim::enter_slowly(lgsim_call, needs_init, lgsim_answer)) return lgsim_answer;              \
    }                                                                                                  \
  } while (0)

#define ENTER() LGSIM_ENTER(true)
#define ENTER_BEFORE_INIT() LGSIM_ENTER(false)
