// The table of exported functions: which symbol is which version of which function.
#pragma once

namespace lgsim {

// The CUDA version (1000 * major + 10 * minor) an exported symbol came with; 0 when no such symbol is exported.
int introduced_in(const char *symbol);
// The function an exported symbol is a form of; the symbol itself when no such symbol is exported.
const char *base_name(const char *symbol);

}  // namespace lgsim
