// launches.cpp as a compiler builds it that was not asked to optimise.
//
// build: -O0
#include "launches.h"
