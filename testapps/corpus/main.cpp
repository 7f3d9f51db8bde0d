// Runs the scenario of the corpus that the program is called by the name of: target/corpus/NAME is this program under that name.
// Must not touch the driver.
#include <cerrno>
#include <cstring>

#include "corpus.hpp"

int main() {
  for (const lg::Scenario* scenario = lg::Scenario::first; scenario != nullptr; scenario = scenario->next)
    if (std::strcmp(scenario->name, program_invocation_short_name) == 0) return scenario->run();
  std::fprintf(stderr, "%s: no scenario of the corpus has this name; a program is started as target/corpus/NAME\n", program_invocation_short_name);
  return 2;
}
