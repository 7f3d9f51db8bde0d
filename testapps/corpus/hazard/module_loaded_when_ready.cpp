// A server says that it is ready, and loads a module for its first request. With LG_REQUEST, it waits for this file in the place of saying so.
// hazard: LG110 call=cuModuleLoadData kernel=- stream=none
// card: yes
#include <dlfcn.h>
#include <unistd.h>

#include "../corpus.hpp"

SCENARIO(module_loaded_when_ready) {
  lg::open_session();
  const auto ready = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "lazyguard_ready"));
  lg::module("corpus");
  if (const char* request = std::getenv("LG_REQUEST")) {
    while (access(request, F_OK) != 0) lg::nap(5);
  } else if (ready != nullptr) {
    ready();
  }
  lg::module("corpus_other");
  std::puts("served");
  return 0;
}
