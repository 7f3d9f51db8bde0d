// Runs the scenario of the corpus that the program's file is named after: target/corpus/NAME is this program under that name. The file
// counts, not the name that the program is started by, so a symbolic link of any name starts the same scenario.
// Must not touch the driver.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "corpus.hpp"

int main() {
  char path[PATH_MAX] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return std::perror("/proc/self/exe"), 2;
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  for (const lg::Scenario* scenario = lg::Scenario::first; scenario != nullptr; scenario = scenario->next)
    if (std::strcmp(scenario->name, name) == 0) return scenario->run();
  std::fprintf(stderr, "%s: no scenario of the corpus has this name; a program is started as target/corpus/NAME\n", name);
  return 2;
}
