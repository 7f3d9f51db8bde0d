// launches.cpp without symbols.
//
// build: -fomit-frame-pointer -fno-optimize-sibling-calls -Wl,-s
#include "launches.h"
