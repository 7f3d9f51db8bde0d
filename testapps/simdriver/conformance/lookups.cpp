// cudart-13.0-lookups.txt: "GPA symbol v=VERSION flags=FLAGS rc=RESULT st=STATUS", in the order the runtime asks.
#include <cstdio>

#include "conformance.hpp"

namespace conformance {

void walk_lookups(const std::string &path) {
  Tally tally("cudart-13.0-lookups.txt");
  for (const std::string &line : lines_of(path)) {
    if (line == "DLSYM cuGetProcAddress_v2") continue;  // how the program itself reached the function
    char symbol[128] = "";
    int version, flags, result, status;
    // The runtime's first question is for the empty name.
    if (sscanf(line.c_str(), "GPA %127s v=%d flags=%d rc=%d st=%d", symbol, &version, &flags, &result, &status) != 5) {
      symbol[0] = 0;
      if (sscanf(line.c_str(), "GPA  v=%d flags=%d rc=%d st=%d", &version, &flags, &result, &status) != 4) {
        tally.unknown(line);
        continue;
      }
    }
    void *pointer = nullptr;
    CUdriverProcAddressQueryResult seen_status = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult seen = cuGetProcAddress(symbol, &pointer, version, static_cast<cuuint64_t>(flags), &seen_status);
    auto words = [](int r, int s, bool found) {
      return "rc=" + std::to_string(r) + " st=" + std::to_string(s) + (found ? " a pointer" : " no pointer");
    };
    tally.cell(line, words(result, status, status == 0), words(seen, seen_status, pointer != nullptr));
  }
}

}  // namespace conformance
