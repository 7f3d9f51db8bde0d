// The shared runtime of launches.
//
// build: -fomit-frame-pointer -fno-optimize-sibling-calls -fvisibility=hidden -Wl,-s
#pragma GCC visibility push(default)
#include "played_runtime.h"
