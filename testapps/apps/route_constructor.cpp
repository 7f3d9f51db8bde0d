// Route: a plugin whose constructor, run inside dlopen while the loader's lock is held, finds the driver and does the whole job.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include <dlfcn.h>

#include <string>

#include "../common/image.hpp"

int main() {
  void* const plugin = dlopen((lg::folder_of_executable() + "/libroute_constructor.so").c_str(), RTLD_NOW);
  EXPECT(plugin != nullptr);
  const auto outcome = static_cast<int*>(dlsym(plugin, "route_outcome"));
  EXPECT(outcome != nullptr);
  return *outcome;
}
