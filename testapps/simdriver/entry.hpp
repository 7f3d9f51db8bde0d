// The guard at the entrance of every exported call.
//
// Each export begins with ENTER(), or with ENTER_BEFORE_INIT() where the documentation lets it be called before cuInit. The guard
// logs the call, plays the settings (fail, never return, delay, a driver too old to have the call) and answers
// CUDA_ERROR_NOT_INITIALIZED. The symbol is the function's own name, so that no entry can be logged under another's.
//
// One byte says whether there is anything to do: after cuInit, without settings, the guard is a load and a branch.
#pragma once

#include "cuda_api.hpp"

namespace lgsim {

struct Call {
  const char *symbol;
  const void *plan;  // what the settings say of this symbol; looked up at its first call
};

// Nonzero while a call needs the slow way in: not initialised, forked, or settings that concern calls.
extern unsigned char slow_entry;

// True when the call must answer `answer` instead of doing its work.
bool enter_slowly(Call &call, bool needs_init, CUresult &answer);

// cuInit has succeeded: calls may be answered.
void initialised();
bool is_initialised();
// The process was forked after cuInit: nothing of the driver works in the child.
bool is_forked_child();

}  // namespace lgsim

#define LGSIM_ENTER(needs_init)                                                                        \
  do {                                                                                                 \
    if (__builtin_expect(lgsim::slow_entry, 0)) {                                                      \
      static lgsim::Call lgsim_call{__func__, nullptr};                                                \
      CUresult lgsim_answer = CUDA_SUCCESS;                                                            \
      if (lgsim::enter_slowly(lgsim_call, needs_init, lgsim_answer)) return lgsim_answer;              \
    }                                                                                                  \
  } while (0)

#define ENTER() LGSIM_ENTER(true)
#define ENTER_BEFORE_INIT() LGSIM_ENTER(false)
