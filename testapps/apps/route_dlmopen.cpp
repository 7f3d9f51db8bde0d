// Route: a plugin that links the driver, opened in a namespace of its own, where nothing preloaded exists and the driver is a second copy.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output; the launches are NOT seen, and the guard says that it missed them
// off:     the same
#include <dlfcn.h>

#include <string>

#include "../common/image.hpp"

int main() {
  void* const plugin = dlmopen(LM_ID_NEWLM, (lg::folder_of_executable() + "/libroute_linked.so").c_str(), RTLD_NOW);
  if (plugin == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  EXPECT(plugin != nullptr);
  const auto run = reinterpret_cast<int (*)()>(dlsym(plugin, "run_linked_route"));
  EXPECT(run != nullptr);
  return run();
}
