// Route: a plugin that links the driver, opened with RTLD_DEEPBIND, so that its references find the driver before anything preloaded.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output; the launches are NOT seen, and the guard says that it missed them
// off:     the same
#include <dlfcn.h>

#include <string>

#include "../common/image.hpp"

int main() {
  void* const plugin = dlopen((lg::folder_of_executable() + "/libroute_linked.so").c_str(), RTLD_NOW | RTLD_DEEPBIND);
  EXPECT(plugin != nullptr);
  const auto run = reinterpret_cast<int (*)()>(dlsym(plugin, "run_linked_route"));
  EXPECT(run != nullptr);
  return run();
}
