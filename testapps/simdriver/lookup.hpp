// The table of exported functions: which symbol is which version of which function.
#pragma once

namespace lgsim {

// The CUDA version (1000 * major + 10 * minor) an exported symbol came with; 0 when no such symbol is exported.
int introduced_in(const char *symbol);

}  // namespace lgsim
